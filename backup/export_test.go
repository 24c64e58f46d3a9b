package backup

import (
	"bufio"
	"bytes"
	"io"
	"time"
)

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
	ValidID = validID
)

// SegmentAgain decodes a segment and encodes it again.
func SegmentAgain(text []byte) ([]byte, error) {
	rest := bufio.NewReader(bytes.NewReader(text))
	h, err := readHead(rest)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(rest)
	if err != nil {
		return nil, err
	}
	again := h.encode()
	for r := (&segment{h, content}).reader(); ; {
		c, ok, err := r.next()
		if !ok {
			return again, err
		}
		again = c.append(again)
	}
}

// StreamAgain decodes a stream and encodes it again.
func StreamAgain(text []byte, id string) ([]byte, error) {
	s, err := decodeStream(text, id)
	if err != nil {
		return nil, err
	}
	return s.encode(), nil
}

// AnnouncementAgain decodes an announcement and encodes it again.
func AnnouncementAgain(text []byte) []byte { return decodeAnnouncement(text).encode(0) }
