package db

import (
	"iter"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// NamespaceView is a namespace as a Snapshot or a Transaction shows it; see Namespace.In. Its methods are
// those of the Snapshot or the Transaction, with keys without the prefix, and it is valid as long as that.
type NamespaceView struct {
	of *Namespace
	r  Reader
}

// reader returns what is read, a nil DB for the zero value.
func (n NamespaceView) reader() Reader {
	if n.r == nil {
		return (*DB)(nil)
	}
	return n.r
}

// transaction returns the transaction that is written, or why there is none.
func (n NamespaceView) transaction() (*Transaction, error) {
	if t, ok := n.r.(*Transaction); ok {
		return t, nil
	}
	if n.r == nil {
		return nil, ErrClosed
	}
	return nil, errors.Wrap(ErrReadOnly, "sievedb: Namespace.In: only in a Transaction can it be written; use the methods of Namespace")
}

// Put is Transaction.Put.
func (n NamespaceView) Put(key, value []byte) error {
	t, err := n.transaction()
	if err != nil {
		return err
	}
	return t.Put(n.of.Key(key), value)
}

// PutTTL is Transaction.PutTTL.
func (n NamespaceView) PutTTL(key, value []byte, ttl time.Duration) error {
	t, err := n.transaction()
	if err != nil {
		return err
	}
	return t.PutTTL(n.of.Key(key), value, ttl)
}

// Delete is Transaction.Delete.
func (n NamespaceView) Delete(key []byte) error {
	t, err := n.transaction()
	if err != nil {
		return err
	}
	return t.Delete(n.of.Key(key))
}

// DeleteRange is Transaction.DeleteRange within the namespace.
func (n NamespaceView) DeleteRange(start, limit []byte) error {
	t, err := n.transaction()
	if err != nil {
		return err
	}
	o := n.of.Bounds(start, limit)
	return t.DeleteRange(o.LowerBound, o.UpperBound)
}

// All is DB.All of what NewIterator shows.
func (n NamespaceView) All(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(n, o, (*Iterator).All)
}

// Backward is DB.Backward of what NewIterator shows.
func (n NamespaceView) Backward(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(n, o, (*Iterator).Backward)
}

// Get is Reader.Get.
func (n NamespaceView) Get(key []byte) ([]byte, error) { return n.reader().Get(n.of.Key(key)) }

// GetTo is Reader.GetTo.
func (n NamespaceView) GetTo(dst, key []byte) ([]byte, error) {
	return n.reader().GetTo(dst, n.of.Key(key))
}

// GetWith is Reader.GetWith.
func (n NamespaceView) GetWith(dst, key []byte, o *GetOptions) ([]byte, error) {
	return n.reader().GetWith(dst, n.of.Key(key), o)
}

// Has is Reader.Has.
func (n NamespaceView) Has(key []byte) (bool, error) { return n.reader().Has(n.of.Key(key)) }

// MultiGet is Reader.MultiGet.
func (n NamespaceView) MultiGet(keys [][]byte) ([][]byte, error) {
	stored := make([][]byte, len(keys))
	for i, key := range keys {
		stored[i] = n.of.Key(key)
	}
	return n.reader().MultiGet(stored)
}

// NewIterator is Reader.NewIterator.
func (n NamespaceView) NewIterator(o *IterOptions) (*Iterator, error) {
	if o == nil {
		o = &IterOptions{}
	}
	bounds := n.of.Bounds(o.LowerBound, o.UpperBound)
	bounds.NoFillCache, bounds.KeysOnly = o.NoFillCache, o.KeysOnly
	it, err := n.reader().NewIterator(bounds)
	if err == nil {
		it.cursor.SetPrefix(n.of.prefix)
	}
	return it, err
}
