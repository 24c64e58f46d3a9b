package oracle

import (
	"fmt"
	"slices"
	"sync"
)

// Possible has the values that each of some keys may have: the last acknowledged one, and those of later writes that
// failed or are in progress. It may be cut while a write runs.
type Possible struct {
	mu    sync.Mutex
	maybe map[int][]string // by key; the first value was acknowledged, "" means none
}

// NewPossible returns what an empty store may have.
func NewPossible() *Possible { return &Possible{maybe: map[int][]string{}} }

// Begun records a write before it is made. Its value remains possible if it fails.
func (m *Possible) Begun(key int, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maybe[key] = append(m.candidates(key), value)
}

// Acked records a write that succeeded.
func (m *Possible) Acked(key int, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maybe[key] = []string{value}
}

// Cut returns a copy and calls image at the same moment: no write begins and none is acknowledged meanwhile.
func (m *Possible) Cut(image func()) *Possible {
	m.mu.Lock()
	defer m.mu.Unlock()
	image()
	c := NewPossible()
	for key, values := range m.maybe {
		c.maybe[key] = slices.Clone(values)
	}
	return c
}

// candidates returns the values that a key may have. The caller holds m.mu, or no write is in progress.
func (m *Possible) candidates(key int) []string {
	if m.maybe[key] == nil {
		return []string{""}
	}
	return m.maybe[key]
}

// Check returns an error if a key cannot have the value that was read.
func (m *Possible) Check(key int, value string) error {
	if !slices.Contains(m.candidates(key), value) {
		return fmt.Errorf("key %d is %q, want one of %q", key, value, m.candidates(key))
	}
	return nil
}
