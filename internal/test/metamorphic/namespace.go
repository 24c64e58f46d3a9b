package metamorphic

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/keyspace"
)

// spaces are the namespaces of a store. A run that has one uses a namespace inside of it for all its keys; see
// subject.keys. The others, the outer one, and the store itself have a key each, that must stay as it is.
var spaces = []string{"a", "a\x00", "a\x00\x01", "ab", "\x00", "\xff\xff"}

const inner, neighbour = "inner", "neighbour"

// keyed is what a store and a namespace have in common.
type keyed interface {
	Put(key, value []byte, wo *db.WriteOptions) error
	PutTTL(key, value []byte, ttl time.Duration, wo *db.WriteOptions) error
	Delete(key []byte, wo *db.WriteOptions) error
	Modify(key []byte, fn func(old []byte) ([]byte, error), wo *db.WriteOptions) error
	ModifyTTL(key []byte, fn func(old []byte, ttl time.Duration) ([]byte, time.Duration, error), wo *db.WriteOptions) error
	CompareAndSwap(key, old, value []byte, wo *db.WriteOptions) (bool, error)
	CompareAndSwapTTL(key, old, value []byte, ttl time.Duration, wo *db.WriteOptions) (bool, error)
	GetTTL(key []byte) ([]byte, time.Duration, error)
	DeleteRange(ctx context.Context, start, limit []byte, wo *db.WriteOptions) error
	db.Reader
}

// names is where the keys of a run are.
type names struct {
	keys  keyed
	space string        // the outer namespace; empty: the keys are the store's own
	ns    *db.Namespace // nil likewise
}

func (s *subject) openNamespace() error {
	s.keys = s.store
	if s.space == "" {
		return nil
	}
	outer, err := s.store.Namespace(s.space)
	if err == nil {
		s.ns, err = outer.Namespace(inner)
	}
	if err != nil {
		return err
	}
	s.keys = s.ns
	if s.opened == 1 {
		return s.atNeighbours(func(key []byte) error { return s.store.Put(key, []byte(neighbour), db.Sync) })
	}
	return nil
}

func (s *subject) atNeighbours(do func(key []byte) error) error {
	if err := do([]byte(neighbour)); err != nil {
		return err
	}
	for _, space := range spaces {
		if err := do(append(keyspace.AppendPrefix(nil, space), neighbour...)); err != nil {
			return err
		}
	}
	return nil
}

// lookAtNeighbours checks that the keys that the history does not concern are what they were, and all namespaces
// listed.
func (s *subject) lookAtNeighbours() error {
	if s.space == "" {
		return nil
	}
	got, err := s.store.Namespaces()
	if err != nil || !slices.Equal(got, slices.Sorted(slices.Values(spaces))) {
		return fmt.Errorf("namespaces %q, %w", got, err)
	}
	return s.atNeighbours(func(key []byte) error {
		if value, err := s.store.Get(key); string(value) != neighbour {
			return fmt.Errorf("%q is %q, %w", key, value, err)
		}
		return nil
	})
}

// in returns what r shows of the run's keys.
func (n *names) in(r db.Reader) db.Reader {
	if n.ns == nil {
		return r
	}
	return n.ns.In(r)
}

// named returns writes with the keys as the store has them.
func (n *names) named(writes []Write) []Write {
	if n.space == "" {
		return writes
	}
	prefix := keyspace.AppendPrefix(keyspace.AppendPrefix(nil, n.space), inner)
	writes = slices.Clone(writes)
	for i := range writes {
		w := &writes[i]
		if w.Range {
			o := n.ns.Bounds(w.Key, w.Limit)
			w.Key, w.Limit = o.LowerBound, o.UpperBound
		} else {
			w.Key = slices.Concat(prefix, w.Key)
		}
	}
	return writes
}

// boundsOf returns those of an operation as the store has them.
func (n *names) boundsOf(o *Op) *db.IterOptions {
	if n.ns == nil {
		return &db.IterOptions{LowerBound: o.Key, UpperBound: o.Limit}
	}
	return n.ns.Bounds(o.Key, o.Limit)
}
