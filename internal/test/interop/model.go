package interop

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"
)

// Model is what a database should hold.
type Model struct {
	values map[string][]byte
	sorted []string // nil: to be made
}

// NewModel returns an empty Model.
func NewModel() *Model { return &Model{values: map[string][]byte{}} }

// Apply does to the model what a batch does to a database.
func (m *Model) Apply(ops []Op) {
	for _, op := range ops {
		if op.Delete {
			delete(m.values, string(op.Key))
		} else {
			m.values[string(op.Key)] = op.Value
		}
	}
	m.sorted = nil
}

// Clone returns a copy that later Applies do not change.
func (m *Model) Clone() *Model { return &Model{values: maps.Clone(m.values)} }

// Len returns the number of keys.
func (m *Model) Len() int { return len(m.values) }

// Keys returns the keys in order. The slice must not be changed.
func (m *Model) Keys() []string {
	if m.sorted == nil {
		m.sorted = slices.Sorted(maps.Keys(m.values))
	}
	return m.sorted
}

// Value returns the value of key.
func (m *Model) Value(key string) []byte { return m.values[key] }

// Check compares v with the model: every key forward, backward and by Get, keys that are absent, and seeks. The error
// says what differs, not the keys but where they stand in the order.
func (m *Model) Check(v View) error {
	for _, backward := range []bool{false, true} {
		entries, err := v.Scan(backward)
		if err != nil {
			return fmt.Errorf("scan (backward: %v): %w", backward, err)
		}
		if backward {
			slices.Reverse(entries)
		}
		if err := m.compare(entries); err != nil {
			return fmt.Errorf("scan (backward: %v): %w", backward, err)
		}
	}
	if err := m.checkGets(v); err != nil {
		return err
	}
	return m.checkSeeks(v)
}

// compare compares entries, in ascending order, with the model.
func (m *Model) compare(entries []Entry) error {
	keys := m.Keys()
	for i, e := range entries {
		if i == len(keys) {
			return fmt.Errorf("%d entries, want %d; the first one too many is %s", len(entries), len(keys), brief(e.Key))
		}
		if string(e.Key) != keys[i] {
			return fmt.Errorf("entry %d of %d is %s, want %s of %d", i, len(entries), brief(e.Key), brief([]byte(keys[i])), len(keys))
		}
		if !bytes.Equal(e.Value, m.values[keys[i]]) {
			return fmt.Errorf("entry %d, %s, has value %s, want %s", i, brief(e.Key), brief(e.Value), brief(m.values[keys[i]]))
		}
	}
	if len(entries) < len(keys) {
		return fmt.Errorf("%d entries, want %d; the first one missing is %s", len(entries), len(keys), brief([]byte(keys[len(entries)])))
	}
	return nil
}

// checkedAbsent bounds the keys whose absent neighbours a check asks for.
const checkedAbsent = 1000

func (m *Model) checkGets(v View) error {
	present := m.keyBytes()
	asked := append(present, m.Absent(spread(present, checkedAbsent))...)
	values, err := v.Get(asked)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	for i, key := range asked {
		want, found := m.values[string(key)]
		if (values[i] != nil) != found {
			return fmt.Errorf("get of %s: found is %v, want %v", brief(key), values[i] != nil, found)
		}
		if !bytes.Equal(values[i], want) {
			return fmt.Errorf("get of %s: value %s, want %s", brief(key), brief(values[i]), brief(want))
		}
	}
	return nil
}

// checkedSeeks bounds the keys to which, and next to which, a check seeks.
const checkedSeeks = 100

func (m *Model) checkSeeks(v View) error {
	keys := m.Keys()
	present := spread(m.keyBytes(), checkedSeeks)
	targets := append(present, m.Absent(present)...)
	got, err := v.Seek(targets)
	if err != nil {
		return fmt.Errorf("seek: %w", err)
	}
	for i, target := range targets {
		at := sort.SearchStrings(keys, string(target))
		if (got[i] != nil) != (at < len(keys)) {
			return fmt.Errorf("seek to %s: valid is %v, want %v", brief(target), got[i] != nil, at < len(keys))
		}
		if got[i] != nil && (string(got[i].Key) != keys[at] || !bytes.Equal(got[i].Value, m.values[keys[at]])) {
			return fmt.Errorf("seek to %s: at %s, want %s and its value", brief(target), brief(got[i].Key), brief([]byte(keys[at])))
		}
	}
	return nil
}

func (m *Model) keyBytes() [][]byte {
	keys := make([][]byte, len(m.values))
	for i, key := range m.Keys() {
		keys[i] = []byte(key)
	}
	return keys
}

// spread returns at most n of keys, evenly taken.
func spread(keys [][]byte, n int) [][]byte {
	if len(keys) <= n {
		return keys
	}
	chosen := make([][]byte, n)
	for i := range chosen {
		chosen[i] = keys[i*len(keys)/n]
	}
	return chosen
}

// Absent returns absent keys, among them neighbours of near: those just after it, a byte shorter,
// and the ends of the order.
func (m *Model) Absent(near [][]byte) [][]byte {
	candidates := [][]byte{{}, {0}, {0xff}, bytes.Repeat([]byte{0xff}, 40)}
	for _, key := range near {
		candidates = append(candidates, append(bytes.Clone(key), 0))
		if len(key) > 0 {
			candidates = append(candidates, key[:len(key)-1])
		}
	}
	return slices.DeleteFunc(candidates, func(key []byte) bool {
		_, ok := m.values[string(key)]
		return ok
	})
}

// brief shows the beginning of b, and its length where that is not all.
func brief(b []byte) string {
	if len(b) <= 40 {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q… of %d bytes", b[:24], len(b))
}
