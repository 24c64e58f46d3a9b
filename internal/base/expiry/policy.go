package expiry

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// Policy says which keys have values that may expire, and what time it is. A nil Policy is that
// of a store in which nothing expires.
type Policy struct {
	keys   atomic.Pointer[keySet]
	clock  func() time.Time
	seen   atomic.Uint64 // the latest time, at least 1
	hidden atomic.Uint64
}

// keySet are the keys that begin with some prefixes. It does not change.
type keySet struct {
	prefixes [][]byte // as Normal returns them
	sum      uint64   // of prefixes
}

// New returns the policy for keys that begin with one of prefixes, or nil if there are none. A nil clock is time.Now.
func New(prefixes [][]byte, clock func() time.Time) *Policy {
	if len(prefixes) == 0 {
		return nil
	}
	return NewGrowing(prefixes, clock)
}

// NewGrowing is New for a store whose prefixes may be added to by SetPrefixes. It never returns nil.
func NewGrowing(prefixes [][]byte, clock func() time.Time) *Policy {
	if clock == nil {
		clock = time.Now
	}
	p := &Policy{clock: clock}
	p.seen.Store(1)
	p.SetPrefixes(prefixes)
	return p
}

// SetPrefixes replaces the prefixes. Readers use the old ones or the new ones.
func (p *Policy) SetPrefixes(prefixes [][]byte) {
	next := &keySet{prefixes: Normal(prefixes)}
	var all []byte
	for _, prefix := range next.prefixes {
		all = util.AppendLengthPrefixed(all, prefix)
	}
	next.sum = util.XXH3(all)
	p.keys.Store(next)
}

// Normal returns a copy of prefixes in ascending order, without those that begin with another one.
func Normal(prefixes [][]byte) (normal [][]byte) {
	sorted := slices.Clone(prefixes)
	slices.SortFunc(sorted, bytes.Compare)
	for _, prefix := range sorted {
		if n := len(normal); n == 0 || !bytes.HasPrefix(prefix, normal[n-1]) {
			normal = append(normal, bytes.Clone(prefix))
		}
	}
	return normal
}

// Join returns the prefixes of a store whose directory has recorded ones, which Normal returned, and
// whose user asks for others. added are those of the others that are for more keys.
func Join(recorded, asked [][]byte) (all, added [][]byte) {
	was := keySet{prefixes: recorded}
	for _, prefix := range Normal(asked) {
		if !was.under(prefix) {
			added = append(added, prefix)
		}
	}
	return Normal(slices.Concat(recorded, added)), added
}

// Prefixes returns the prefixes as Normal does. They must not be changed.
func (p *Policy) Prefixes() [][]byte {
	if p == nil {
		return nil
	}
	return p.keys.Load().prefixes
}

// Under reports whether values of key have envelopes.
func (p *Policy) Under(key []byte) bool { return p != nil && p.keys.Load().under(key) }

func (s *keySet) under(key []byte) bool {
	// Only the last prefix that is not above the key can begin it.
	i := len(s.prefixes) - 1
	if i > 0 {
		i = sort.Search(len(s.prefixes), func(i int) bool { return bytes.Compare(s.prefixes[i], key) > 0 }) - 1
	}
	return i >= 0 && bytes.HasPrefix(key, s.prefixes[i])
}

// Now reads the clock and returns the time, in milliseconds since 1970.
func (p *Policy) Now() uint64 {
	if p == nil {
		return 0
	}
	return p.Advance(millis(p.clock()))
}

// Advance makes at the time, unless it is later already, and returns the time.
func (p *Policy) Advance(at uint64) uint64 {
	if p == nil {
		return 0
	}
	at = min(at, MaxTime)
	for {
		seen := p.seen.Load()
		if at <= seen {
			return seen
		}
		if p.seen.CompareAndSwap(seen, at) {
			return at
		}
	}
}

// Seen returns the time without reading the clock. It may be called under locks.
func (p *Policy) Seen() uint64 {
	if p == nil {
		return 0
	}
	return p.seen.Load()
}

// millis returns t in milliseconds since 1970, within the limits of an envelope.
func millis(t time.Time) uint64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= MaxTime/1000:
		return MaxTime
	}
	return uint64(t.UnixMilli())
}

// CheckPut returns why a value of key cannot have that time to live.
func (p *Policy) CheckPut(key []byte, ttl time.Duration) error {
	if err := CheckTTL(ttl); err != nil {
		return err
	}
	if !p.Under(key) {
		return errNoPrefix
	}
	return nil
}

var errNoPrefix = errors.New("sievedb: PutTTL: the key is under none of Options.Expiry.Prefixes and in none of the namespaces of " +
	"Options.Expiry.Namespaces, so its value has no place for a time to live; add a prefix or a namespace, or use Put. With Options.Expiry.Raw there are no prefixes: open without it")

// Seal returns value with its envelope if key is under a prefix, in the memory of dst, and value
// itself otherwise. With a ttl of 0 the value does not expire.
func (p *Policy) Seal(dst, key, value []byte, ttl time.Duration) ([]byte, error) {
	at := uint64(Never)
	switch {
	case ttl < 0:
		return nil, CheckTTL(ttl)
	case !p.Under(key) && ttl == 0:
		return value, nil
	case !p.Under(key):
		return nil, errNoPrefix
	case ttl > 0:
		var err error
		if at, err = p.deadline(ttl); err != nil {
			return nil, err
		}
	}
	return Append(dst[:0], at, value), nil
}

// deadline returns the first millisecond that is at least ttl from now.
func (p *Policy) deadline(ttl time.Duration) (uint64, error) {
	t := p.clock()
	now, seen := millis(t), p.Advance(millis(t))
	if t.Unix() < 0 {
		return 0, errors.Newf("sievedb: PutTTL: Options.Expiry.Clock returned %v; it must be after 1970", t)
	}
	if now < seen { // the clock has gone back
		t = time.UnixMilli(int64(seen))
	}
	if seen == MaxTime { // the sum may be too large for a Time
		return MaxTime, nil
	}
	return millis(t.Add(ttl).Add(time.Millisecond - 1)), nil
}

// Open returns the value in an envelope, or value itself if key is under no prefix. alive is
// false if it has expired. A reader with a time of its own passes it as at, others 0.
func (p *Policy) Open(key, value []byte, at uint64) (opened []byte, alive bool, err error) {
	opened, _, alive, err = p.OpenUntil(key, value, at)
	return opened, alive, err
}

// OpenUntil is Open, and returns when the value expires.
func (p *Policy) OpenUntil(key, value []byte, at uint64) (opened []byte, deadline uint64, alive bool, err error) {
	if !p.Under(key) {
		return value, Never, true, nil
	}
	deadline, ok := Decode(value)
	switch {
	case !ok:
		return nil, Never, false, ErrNoEnvelope
	case deadline == Never:
		return value[HeaderLen:], Never, true, nil
	}
	if at == 0 {
		at = p.Now()
	}
	if at >= deadline {
		return nil, Never, false, nil
	}
	return value[HeaderLen:], deadline, true, nil
}

// Earlier returns the earlier of two times at which values expire.
func Earlier(a, b uint64) uint64 {
	if a == Never || b != Never && b < a {
		return b
	}
	return a
}

// Remaining returns how long a value that expires at a deadline lives after the time at, 0 for ever.
func Remaining(deadline, at uint64) time.Duration {
	if deadline == Never {
		return 0
	}
	const most = uint64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(deadline-min(at, deadline), most)) * time.Millisecond
}

// SealUntil is Seal for a value that expires at a deadline, perhaps Never.
func (p *Policy) SealUntil(dst, key, value []byte, deadline uint64) []byte {
	if !p.Under(key) {
		return value
	}
	return Append(dst[:0], deadline, value)
}

// CountHidden counts n lookups that found an expired value.
func (p *Policy) CountHidden(n int) { p.hidden.Add(uint64(n)) }

// Hidden returns the number of lookups that found an expired value.
func (p *Policy) Hidden() uint64 {
	if p == nil {
		return 0
	}
	return p.hidden.Load()
}

// Time returns the time of the policy as a time.Time, zero if nothing expires.
func (p *Policy) Time() time.Time {
	if len(p.Prefixes()) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(p.Now()))
}

// Deadline returns when a value of a table expires: ok is false if it does not.
func (p *Policy) Deadline(key, value []byte) (at uint64, ok bool) {
	if !p.Under(key) {
		return 0, false
	}
	at, ok = Decode(value)
	return at, ok && at != Never
}

// Sum returns a checksum of the prefixes. A table records it with the time at which its last
// value expires: with other prefixes, some of its values may be none that expire.
func (p *Policy) Sum() uint64 {
	if p == nil {
		return 0
	}
	return p.keys.Load().sum
}

// ForTables returns Deadline and Sum, for the writers of tables.
func (p *Policy) ForTables() (deadline func(key, value []byte) (uint64, bool), keys uint64) {
	if p == nil {
		return nil, 0
	}
	return p.Deadline, p.Sum()
}

// CoversRange reports whether all keys from start to end, in the order of their bytes, begin with
// the same prefix of the policy.
func (p *Policy) CoversRange(start, end []byte) bool {
	for _, prefix := range p.keys.Load().prefixes {
		if bytes.HasPrefix(start, prefix) {
			return bytes.HasPrefix(end, prefix)
		}
	}
	return false
}
