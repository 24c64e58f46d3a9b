package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/batch"
	"github.com/sievedb/sievedb/internal/expiry"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// ExpiryOptions let values expire. The zero value of each field is its default.
type ExpiryOptions struct {
	// Prefixes begin the keys whose values may expire: those of PutTTL, while values of Put
	// under the same prefixes do not. An empty prefix is for all keys. On disk each value under
	// a prefix is 9 bytes longer (docs/format.md). So a database with values under a prefix
	// must always be opened with it. A value that was written there without it, or by LevelDB,
	// is ErrNoEnvelope for readers of its key. Default: none, and nothing expires.
	Prefixes [][]byte

	// Namespaces names namespaces whose values may expire, as if Prefixes had their prefixes.
	Namespaces []string

	// Clock returns the present time. The store never goes back in time: while Clock returns
	// an earlier time than before, also before the database was opened again, the latest one
	// counts. Clock may be called from any goroutine. It must not wait for the store. Default:
	// time.Now.
	Clock func() time.Time
}

// ErrNoEnvelope says that the value of a key under ExpiryOptions.Prefixes was written without
// that option, or by another program. Reads of that key, and iterators that come to it, return
// it. Open the database without the option to read the value; Put or Delete the key with it.
var ErrNoEnvelope = expiry.ErrNoEnvelope

// PutTTL writes value under key, for readers until ttl has passed. The key must be under one of
// Options.Expiry.Prefixes. ttl must be positive, and is rounded up to a millisecond; values
// expire in the year 10889 at the latest. Otherwise it is like Put. Snapshots and iterators keep
// showing what had not expired when they were opened.
func (d *DB) PutTTL(key, value []byte, ttl time.Duration, wo *WriteOptions) error {
	if d == nil || d.closed.Load() {
		return ErrClosed
	}
	if err := expiry.CheckTTL(ttl); err != nil {
		return err
	}
	sealed, err := d.expiry.Seal(nil, key, value, ttl)
	if err != nil {
		return err
	}
	return d.write(kindSealed, key, sealed, wo)
}

// kindSealed is KindSet for write, of a value that has its envelope.
const kindSealed base.Kind = 0xff

// seal returns the kind and the value, with its envelope if it needs one, of an entry for write.
func (d *DB) seal(kind base.Kind, key, value []byte) (base.Kind, []byte, error) {
	switch kind {
	case kindSealed:
		return base.KindSet, value, nil
	case base.KindSet:
		value, err := d.expiry.Seal(nil, key, value, 0)
		return kind, value, err
	}
	return kind, value, nil
}

// sealBatch calls apply with a copy of b in which values have their envelopes.
func (d *DB) sealBatch(b *batch.Batch, apply func(*batch.Batch) error) error {
	sealed := batches.Get().(*batch.Batch)
	defer release(sealed)
	if err := sealed.Seal(d.expiry, b); err != nil {
		return err
	}
	return apply(sealed)
}

// tableOptions returns the options of new tables.
func (d *DB) tableOptions(o *Options) sstable.WriterOptions {
	t := o.tableOptions()
	t.Expiry, t.ExpiryKeys = d.expiry.ForTables()
	return t
}

// recordTime makes the MANIFEST record the time of the store when it closes.
func (d *DB) recordTime() error {
	if d.expiry.Now() == 0 || d.writeErr() != nil { // 0: nothing expires
		return nil
	}
	return d.applyEdit(&manifest.Edit{}, nil, nil)
}
