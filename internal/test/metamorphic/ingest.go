package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/sstable"
)

// incoming is where the tables of an Ingest are made.
const incoming = "incoming"

// ingest makes tables of the writes and ingests them.
func (s *subject) ingest(o *Op) error {
	if err := s.disk.MkdirAll(incoming); err != nil {
		return err
	}
	var paths []string
	if o.Same {
		older := slices.Clone(o.Batch)
		for i := range older {
			older[i] = Write{Key: older[i].Key, Delete: true}
		}
		path, err := s.makeTable(older, o.Of, "older")
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	for i := range o.Count {
		n := len(o.Batch)
		path, err := s.makeTable(o.Batch[i*n/o.Count:(i+1)*n/o.Count], o.Of, fmt.Sprint(i))
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	_, err := s.store.Ingest(context.Background(), paths, &db.IngestOptions{Copy: o.NoFill})
	for _, path := range paths {
		err = errors.Join(err, s.disk.Remove(path))
	}
	return err
}

// makeTable writes a table as another program would. Numbers of 2^36 and more are above those of the
// store: a load advances it by 2^32.
func (s *subject) makeTable(writes []Write, number int, name string) (path string, err error) {
	path = incoming + "/" + name
	file, err := s.disk.Create(path)
	if err != nil {
		return "", err
	}
	o := sstable.WriterOptions{Comparer: s.history.Comparer, BlockSize: 512}
	if len(writes)%2 == 0 {
		o.Filter = filter.NewCacheLineBloomPolicy(10)
	}
	w := sstable.NewWriter(file, o)
	for i := 0; i < len(writes) && err == nil; i++ {
		key := sstable.Key{User: s.named(writes[i : i+1])[0].Key, Seq: uint64(number)<<36 + 1, Deletion: writes[i].Delete}
		err = w.Add(key.Append(nil), s.stored(&writes[i]))
		if err == nil && len(writes)%3 == 0 && i%2 == 0 { // an older version of the same key
			key.Seq, key.Deletion = key.Seq-1, !key.Deletion
			err = w.Add(key.Append(nil), s.stored(&Write{Key: writes[i].Key, Value: wrong, Delete: key.Deletion}))
		}
	}
	if err == nil {
		_, err = w.Finish()
	}
	return path, errors.Join(err, file.Close())
}

// stored returns the value as a table has it: with an envelope, if the key may expire.
func (s *subject) stored(w *Write) []byte {
	if w.Delete {
		return nil
	}
	for _, prefix := range s.history.Expiring {
		if bytes.HasPrefix(w.Key, prefix) {
			at := uint64(expiry.Never)
			if w.TTL > 0 {
				at = uint64(s.latest) + uint64(w.TTL)
			}
			return expiry.Append(nil, at, w.Value)
		}
	}
	return w.Value
}
