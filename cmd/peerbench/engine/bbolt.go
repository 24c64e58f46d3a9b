package engine

import (
	"path/filepath"

	"go.etcd.io/bbolt"
)

func bboltDriver() Driver {
	return Driver{Name: "bbolt", Title: "bbolt", Version: moduleVersion("go.etcd.io/bbolt"), Open: openBbolt,
		Remark: "A B+tree in a mapped file: no block cache, no compression, no filters; its reads are page faults. A transaction for each call. " +
			"No fsync (NoSync) except in fillsync, so a crash of the system may cost the whole file."}
}

var bucketName = []byte("b")

type bboltEngine struct{ db *bbolt.DB }

func openBbolt(dir string, o Options) (Engine, error) {
	d, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o644, &bbolt.Options{NoSync: !o.Sync, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	err = d.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketName)
		return err
	})
	return &bboltEngine{d}, err
}

func (b *bboltEngine) Get(dst, key []byte) (value []byte, found bool, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketName).Get(key)
		value, found = append(dst, v...), v != nil
		return nil
	})
	return value, found, err
}

func (b *bboltEngine) Put(key, value []byte) error {
	return b.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketName).Put(key, value) })
}

func (b *bboltEngine) Delete(key []byte) error {
	return b.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketName).Delete(key) })
}

// Apply passes copies of the values, since these must not change before the transaction ends.
func (b *bboltEngine) Apply(n int, entry func(i int) (key, value []byte)) error {
	return b.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketName)
		for i := range n {
			key, value := entry(i)
			if err := bucket.Put(key, clone(value)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bboltEngine) NewIterator(IterOptions) (Iterator, error) {
	tx, err := b.db.Begin(false)
	if err != nil {
		return nil, err
	}
	return &bboltIterator{tx: tx, cursor: tx.Bucket(bucketName).Cursor()}, nil
}

func (b *bboltEngine) Flush() error { return nil }
func (b *bboltEngine) Close() error { return b.db.Close() }

type bboltIterator struct {
	tx         *bbolt.Tx
	cursor     *bbolt.Cursor
	key, value []byte
}

func (it *bboltIterator) at(key, value []byte) bool {
	it.key, it.value = key, value
	return key != nil
}

func (it *bboltIterator) First() bool          { return it.at(it.cursor.First()) }
func (it *bboltIterator) Last() bool           { return it.at(it.cursor.Last()) }
func (it *bboltIterator) Seek(key []byte) bool { return it.at(it.cursor.Seek(key)) }
func (it *bboltIterator) Next() bool           { return it.at(it.cursor.Next()) }
func (it *bboltIterator) Prev() bool           { return it.at(it.cursor.Prev()) }
func (it *bboltIterator) Key() []byte          { return it.key }
func (it *bboltIterator) Value() []byte        { return it.value }
func (it *bboltIterator) Close() error         { return it.tx.Rollback() }
