package metamorphic

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/db"
)

// contend makes a change between the reading and the writing of a transaction. It must conflict if the change is one of
// the key that it read, and must not otherwise, under all options.
func (s *subject) contend(o *Op) error {
	calls, there := 0, false
	err := s.store.Update(func(t *db.Transaction) error {
		t.SetWriteOptions(o.writeOptions())
		in := s.in(t)
		_, err := in.Get(o.Keys[0])
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
		if calls++; calls == 1 {
			there = err == nil
			if err := s.interfere(o); err != nil {
				return err
			}
		}
		return in.(writer).Put(o.Keys[0], o.Value)
	})
	if err != nil {
		return err
	}
	touched, must := s.touches(o)
	switch {
	case !touched && calls != 1:
		return fmt.Errorf("%d calls, although other keys were changed", calls)
	case touched && (must || there) && calls != 2:
		return fmt.Errorf("%d calls, although the key was changed", calls)
	}
	return nil
}

func (s *subject) interfere(o *Op) error {
	if o.Batch == nil {
		return s.keys.DeleteRange(context.Background(), o.Key, o.Limit, o.writeOptions())
	}
	ingest := *o
	ingest.Count = 1
	return s.ingest(&ingest)
}

// touches reports whether the change is one of the key that is read. A deletion need not be one if the key has no
// value.
func (s *subject) touches(o *Op) (touched, must bool) {
	key, compare := o.Keys[0], s.history.Comparer.Compare
	if o.Batch == nil {
		return (o.Key == nil || compare(o.Key, key) <= 0) && (o.Limit == nil || compare(key, o.Limit) < 0), false
	}
	for _, w := range o.Batch {
		if compare(w.Key, key) == 0 {
			return true, !w.Delete // an absent key stays one
		}
	}
	return false, false
}
