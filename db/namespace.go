package db

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/keyspace"
)

// Namespace is a part of the database with keys of its own, like a bucket of bbolt. It costs nothing
// to have: a namespace is the keys that begin with its prefix, and exists as long as it has one.
// docs/namespaces.md has the encoding.
//
// It is safe for concurrent use. Keys of its methods, and those that its iterators show, are
// without the prefix, which counts in MaxKeySize. Otherwise the methods are those of DB.
type Namespace struct {
	d      *DB
	name   string
	prefix []byte
}

// Reader is what a DB, a Snapshot, a Transaction, a Namespace and a NamespaceView can all read.
type Reader interface {
	Get(key []byte) ([]byte, error)
	GetTo(dst, key []byte) ([]byte, error)
	GetWith(dst, key []byte, o *GetOptions) ([]byte, error)
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte) ([][]byte, error)
	NewIterator(o *IterOptions) (*Iterator, error)
	All(o *IterOptions) (entries iter.Seq2[[]byte, []byte], err func() error)
	Backward(o *IterOptions) (entries iter.Seq2[[]byte, []byte], err func() error)
}

var _ = []Reader{(*DB)(nil), (*Snapshot)(nil), (*Transaction)(nil), (*Namespace)(nil), NamespaceView{}}

// Namespace returns the namespace with that name, 1 byte to 64 KiB of any bytes. It need not exist.
// The DB must have the BytewiseComparer. Keys that are written without a namespace collide with
// those of namespaces only if they begin with the byte 00.
func (d *DB) Namespace(name string) (*Namespace, error) { return newNamespace(d, nil, name) }

// Namespace returns a namespace within this one.
func (n *Namespace) Namespace(name string) (*Namespace, error) {
	if n.db() == nil {
		return nil, ErrClosed
	}
	return newNamespace(n.d, n.prefix, name)
}

func newNamespace(d *DB, outer []byte, name string) (*Namespace, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	if !d.opts.Comparer.IsBytewise() {
		return nil, errors.Newf(notBytewise, d.opts.Comparer.Name)
	}
	if err := keyspace.CheckName(name); err != nil {
		return nil, err
	}
	return &Namespace{d: d, name: name, prefix: keyspace.AppendPrefix(slices.Clone(outer), name)}, nil
}

const notBytewise = "sievedb: Namespace: namespaces go by the order of bytes, but Options.Comparer is %q"

// Namespaces returns the names of the namespaces that have a key, in order. It seeks once for each.
func (d *DB) Namespaces() ([]string, error) { return namespaces(d, nil) }

// Namespaces returns the names of the namespaces within this one, as DB.Namespaces does.
func (n *Namespace) Namespaces() ([]string, error) {
	if n.db() == nil {
		return nil, ErrClosed
	}
	return namespaces(n.d, n.prefix)
}

func namespaces(d *DB, prefix []byte) (names []string, err error) {
	if d != nil && !d.closed.Load() && !d.opts.Comparer.IsBytewise() {
		return nil, errors.Newf(notBytewise, d.opts.Comparer.Name)
	}
	start, limit := keyspace.Bounds(prefix)
	it, err := d.NewIterator(&IterOptions{LowerBound: start, UpperBound: limit})
	if err != nil {
		return nil, err
	}
	err = keyspace.Names(it, prefix, func(name string) bool { names = append(names, name); return true })
	return names, errors.CombineErrors(err, it.Close())
}

// Name returns the namespace's name, without those of outer ones.
func (n *Namespace) Name() string {
	if n == nil {
		return ""
	}
	return n.name
}

// Key returns a new slice with the key as the DB has it, for a Batch or a Loader; ParseKey is its reverse.
// The Key of nil or an empty key is the namespace's prefix.
func (n *Namespace) Key(key []byte) []byte { return n.append(nil, key) }

// Bounds returns the bounds of the namespace's keys as the DB has them, between a start and a limit
// without the prefix; nil means no bound.
// The bounds of a nil or zero Namespace contain no key.
func (n *Namespace) Bounds(start, limit []byte) *IterOptions {
	if n.db() == nil {
		return &IterOptions{LowerBound: []byte{}, UpperBound: []byte{}}
	}
	o := &IterOptions{LowerBound: n.Key(start), UpperBound: keyspace.After(n.prefix)}
	if limit != nil {
		o.UpperBound = n.Key(limit)
	}
	return o
}

// ParseKey is the reverse of Key: it returns the part of a key of the DB after the namespace's prefix, for example of a
// key that DB.Changes yields. ok is false if the key does not belong to the namespace. The result is in the memory of
// key. Keys of namespaces within this one belong to it; their own ParseKey tells them apart.
func (n *Namespace) ParseKey(key []byte) (rest []byte, ok bool) {
	if n.db() == nil {
		return nil, false
	}
	return bytes.CutPrefix(key, n.prefix)
}

// In returns the namespace as r shows it: r is a Snapshot or a Transaction of the same DB, whose reads are remembered
// as usual. In a Transaction it writes, too. Without a namespace or an r, the methods return ErrClosed.
func (n *Namespace) In(r Reader) NamespaceView {
	if n.db() == nil || r == nil {
		return NamespaceView{}
	}
	return NamespaceView{n, r}
}

// db returns the DB, nil for a nil or zero Namespace: its methods return ErrClosed.
func (n *Namespace) db() *DB {
	if n == nil {
		return nil
	}
	return n.d
}

// keyBuffers has memory for keys with their prefix, for the time of a call.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// stored returns the key as the DB has it, in a buffer of keyBuffers.
func (n *Namespace) stored(key []byte) *[]byte {
	b := keyBuffers.Get().(*[]byte)
	*b = n.append((*b)[:0], key)
	return b
}

// append appends the key as the DB has it.
func (n *Namespace) append(dst, key []byte) []byte {
	if n != nil {
		dst = append(dst, n.prefix...)
	}
	return append(dst, key...)
}

// Get is DB.Get.
func (n *Namespace) Get(key []byte) ([]byte, error) {
	k := n.stored(key)
	defer keyBuffers.Put(k)
	return n.db().Get(*k)
}

// GetTo is DB.GetTo.
func (n *Namespace) GetTo(dst, key []byte) ([]byte, error) { return n.GetWith(dst, key, nil) }

// GetWith is DB.GetWith.
func (n *Namespace) GetWith(dst, key []byte, o *GetOptions) ([]byte, error) {
	k := n.stored(key)
	defer keyBuffers.Put(k)
	return n.db().GetWith(dst, *k, o)
}

// Has is DB.Has.
func (n *Namespace) Has(key []byte) (bool, error) {
	k := n.stored(key)
	defer keyBuffers.Put(k)
	return n.db().Has(*k)
}

// MultiGet is DB.MultiGet.
func (n *Namespace) MultiGet(keys [][]byte) ([][]byte, error) { return n.In(n.db()).MultiGet(keys) }

// NewIterator is DB.NewIterator.
func (n *Namespace) NewIterator(o *IterOptions) (*Iterator, error) {
	return n.In(n.db()).NewIterator(o)
}

// Put is DB.Put.
func (n *Namespace) Put(key, value []byte, wo *WriteOptions) error {
	k := n.stored(key)
	defer keyBuffers.Put(k)
	return n.db().Put(*k, value, wo)
}

// PutTTL is DB.PutTTL.
func (n *Namespace) PutTTL(key, value []byte, ttl time.Duration, wo *WriteOptions) error {
	k := n.stored(key)
	defer keyBuffers.Put(k)
	return n.db().PutTTL(*k, value, ttl, wo)
}

// Modify is DB.Modify.
func (n *Namespace) Modify(key []byte, fn func(old []byte) ([]byte, error), wo *WriteOptions) error {
	return n.db().Modify(n.Key(key), fn, wo)
}

// ModifyTTL is DB.ModifyTTL.
func (n *Namespace) ModifyTTL(key []byte, fn func(old []byte, ttl time.Duration) ([]byte, time.Duration, error), wo *WriteOptions) error {
	return n.db().ModifyTTL(n.Key(key), fn, wo)
}

// CompareAndSwap is DB.CompareAndSwap.
func (n *Namespace) CompareAndSwap(key, old, value []byte, wo *WriteOptions) (swapped bool, err error) {
	return n.db().CompareAndSwap(n.Key(key), old, value, wo)
}

// CompareAndSwapTTL is DB.CompareAndSwapTTL.
func (n *Namespace) CompareAndSwapTTL(key, old, value []byte, ttl time.Duration, wo *WriteOptions) (swapped bool, err error) {
	return n.db().CompareAndSwapTTL(n.Key(key), old, value, ttl, wo)
}

// Delete is DB.Delete.
func (n *Namespace) Delete(key []byte, wo *WriteOptions) error {
	k := n.stored(key)
	defer keyBuffers.Put(k)
	return n.db().Delete(*k, wo)
}

// DeleteRange is DB.DeleteRange within the namespace.
func (n *Namespace) DeleteRange(ctx context.Context, start, limit []byte, wo *WriteOptions) error {
	if n.db() == nil {
		return ErrClosed
	}
	o := n.Bounds(start, limit)
	return n.d.DeleteRange(ctx, o.LowerBound, o.UpperBound, wo)
}

// Drop deletes all keys of the namespace, those of namespaces within it included, as DB.DeleteRange does.
func (n *Namespace) Drop(ctx context.Context) error { return n.DeleteRange(ctx, nil, nil, nil) }
