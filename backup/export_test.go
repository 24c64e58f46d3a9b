package backup

import "time"

// SetNow replaces the clock.
func (r *Repository) SetNow(now func() time.Time) { r.now = now }

// The manifest, for tests of other packages.
var (
	EncodeAgain = func(text []byte) ([]byte, error) {
		m, err := parseManifest(string(text))
		if err != nil {
			return nil, err
		}
		return m.encode(), nil
	}
	Divide  = Policy.divide
	TimeOf  = timeOf
	ValidID = validID
)
