package metamorphic

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/db"
)

// The swaps. The first three keep when the value expires.
const (
	modify = iota
	swapRight
	swapWrong
	modifyTTL
	swapTTL
)

var swapNames = [...]string{"Modify", "CompareAndSwap", "CompareAndSwap with another value", "ModifyTTL", "CompareAndSwapTTL"}

// swapped is the answer: what was there, how long it had to live, and whether it was replaced.
func swapped(dst, old []byte, ttl int, done bool) []byte {
	if old == nil {
		dst = append(dst, answerNotFound...)
	} else {
		dst = appendShown(dst, old)
	}
	return fmt.Appendf(dst, " for %d ms, replaced: %t", ttl, done)
}

// wrong is a value that no key has.
var wrong = []byte("another value")

func (m *model) swap(dst []byte, o *Op) []byte {
	if m.readOnly {
		return append(dst, answerReadOnly...)
	}
	old, ends := m.getUntil(m.view(-1), o.Key)
	if o.Of != swapWrong {
		e := m.entryOf(Write{Key: o.Key, Value: o.Value, Delete: o.Value == nil, TTL: o.TTL})
		if o.Of < modifyTTL {
			e.expires = ends
		}
		m.write(e)
	}
	return swapped(dst, old, m.view(-1).remaining(ends), o.Of != swapWrong)
}

func (m *model) getTTL(dst []byte, o *Op) []byte {
	at := m.view(o.Slot)
	value, ends := m.getUntil(at, o.Key)
	if value == nil {
		return append(dst, answerNotFound...)
	}
	return swapped(dst, value, at.remaining(ends), false)
}

// getUntil returns a value, nil if there is none, and when it expires.
func (m *model) getUntil(at moment, key []byte) (value []byte, ends int) {
	value, found := m.get(at, key)
	if !found {
		return nil, 0
	}
	i, _ := m.find(at.entries, key)
	return value, at.entries[i].expires
}

func (m moment) remaining(ends int) int {
	if ends == 0 {
		return 0
	}
	return ends - m.now
}

func (s *subject) getTTL(dst []byte, o *Op) []byte {
	from, key := s.keys.GetTTL, o.Key
	if o.Slot >= 0 {
		from, key = s.snapshots[o.Slot].GetTTL, s.named([]Write{{Key: key}})[0].Key
	}
	value, ttl, err := from(key)
	if err != nil {
		return appendOutcome(dst, err)
	}
	return swapped(dst, notNil(value), int(ttl/time.Millisecond), false)
}

func notNil(value []byte) []byte { return append([]byte{}, value...) }

func (s *subject) swap(dst []byte, o *Op) []byte {
	old, ttl, err := s.keys.GetTTL(o.Key)
	switch {
	case err == nil:
		old = notNil(old)
	case errors.Is(err, db.ErrNotFound):
		old = nil
	default:
		return appendOutcome(dst, err)
	}
	done, err := s.replace(o, old, ttl)
	if err != nil {
		return appendOutcome(dst, err)
	}
	return swapped(dst, old, int(ttl/time.Millisecond), done)
}

// replace does a swap of a value that has a time to live.
func (s *subject) replace(o *Op, old []byte, ttl time.Duration) (done bool, err error) {
	next := time.Duration(o.TTL) * time.Millisecond
	sees := func(seen []byte, remains time.Duration) error {
		if (seen == nil) != (old == nil) || !bytes.Equal(seen, old) || remains != ttl {
			return fmt.Errorf("it sees %s for %v", show(seen), remains)
		}
		return nil
	}
	switch o.Of {
	case modify:
		return true, s.keys.Modify(o.Key, func(seen []byte) ([]byte, error) { return o.Value, sees(seen, ttl) }, o.writeOptions())
	case modifyTTL:
		return true, s.keys.ModifyTTL(o.Key, func(seen []byte, remains time.Duration) ([]byte, time.Duration, error) {
			return o.Value, next, sees(seen, remains)
		}, o.writeOptions())
	case swapTTL:
		return s.keys.CompareAndSwapTTL(o.Key, old, o.Value, next, o.writeOptions())
	case swapWrong:
		return s.keys.CompareAndSwap(o.Key, wrong, o.Value, o.writeOptions())
	}
	return s.keys.CompareAndSwap(o.Key, old, o.Value, o.writeOptions())
}
