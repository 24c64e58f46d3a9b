package db

import (
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/base/keyspace"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/scan"
)

// ExpiryOptions let values expire. The zero value of each field is its default.
type ExpiryOptions struct {
	// Prefixes begin the keys whose values may expire: those of PutTTL, while values of Put under the same prefixes do
	// not. An empty prefix is for all keys. On disk each value under a prefix is 9 bytes longer (docs/format.md).
	//
	// The database records its prefixes when it is opened for writing. They then hold whether the option is set or not,
	// and stay: an opening can add prefixes, but not remove one. It can only add those under which no value was written
	// without the option; otherwise Open returns an error, and changes nothing. To find out, it reads all values under
	// an added prefix once. A value that another program writes under a prefix is ErrNoEnvelope for readers of its key.
	// Default: the recorded ones; in a new database none, and nothing expires.
	Prefixes [][]byte

	// Namespaces names namespaces whose values may expire, as if Prefixes had their prefixes.
	Namespaces []string

	// Raw opens the database without any prefix, so that all values are shown as they are stored:
	// with their envelopes, and those that have expired as well. It is for programs that copy a
	// database, or mend one with values without envelopes. What is written is stored as it is,
	// too. It must have its envelope. The record stays as it is. Prefixes and Namespaces must be
	// empty.
	Raw bool

	// Clock returns the present time. The store never goes back in time: while Clock returns
	// an earlier time than before, also before the database was opened again, the latest one
	// counts. Clock may be called from any goroutine. It must not wait for the store. Default:
	// time.Now.
	Clock func() time.Time
}

// ErrNoEnvelope says that the value of a key under ExpiryOptions.Prefixes was written by another
// program, or with ExpiryOptions.Raw. Reads of that key, and iterators that come to it, return it. Open
// the database with Raw to read the value; Put or Delete the key without Raw.
var ErrNoEnvelope = expiry.ErrNoEnvelope

// prefixes returns the prefixes that the options ask for.
func (o *ExpiryOptions) prefixes() [][]byte { return keyspace.Prefixes(o.Prefixes, o.Namespaces) }

// validate returns why the options cannot be used with a comparer.
func (o *ExpiryOptions) validate(cmp *Comparer) error {
	for _, name := range o.Namespaces {
		if err := keyspace.CheckName(name); err != nil {
			return errors.Wrap(err, "sievedb: Options.Expiry.Namespaces")
		}
	}
	used := len(o.Prefixes)+len(o.Namespaces) > 0
	if used && o.Raw {
		return errors.New("sievedb: Options.Expiry.Raw shows values as they are stored, so Prefixes and Namespaces must be empty")
	}
	if used && cmp.InexactEqual {
		return errors.Newf("sievedb: comparer %q treats keys with different bytes as equal, so a prefix cannot say which values expire; "+
			"leave Options.Expiry.Prefixes empty", cmp.Name)
	}
	return nil
}

// expiryPrefixes returns the prefixes of a store in dir with this record, and those of them that it does not have.
func (o *Options) expiryPrefixes(recorded manifest.Recorded, dir string) (all, added [][]byte, err error) {
	if o.Expiry.Raw {
		return nil, nil, nil
	}
	asked := o.Expiry.prefixes()
	if recorded.PrefixesUnknown() && len(asked) == 0 {
		return nil, nil, errors.Newf("sievedb: %s has values that expire, but its MANIFEST does not say under which prefixes, because an earlier "+
			"version wrote it: open it for writing once with the Options.Expiry.Prefixes and Namespaces of its values; they are then recorded", dir)
	}
	all, added = expiry.Join(recorded.Prefixes, asked)
	if recorded.PrefixesUnknown() {
		added = nil // they are those that the values were written with
	}
	return all, added, nil
}

// adoptExpiry makes the store use the prefixes that the directory records and the options add.
func (o *opening) adoptExpiry(recorded manifest.Recorded) (err error) {
	var all [][]byte
	if all, o.prefixes, err = o.opts.expiryPrefixes(recorded, o.files.Path); err != nil {
		return err
	}
	o.scans.Expiry = expiry.New(all, o.opts.Expiry.Clock)
	o.scans.Expiry.Advance(recorded.Time)
	return nil
}

// recordExpiry makes the next edit record the prefixes of the store, after it has read that all values
// under the added ones have envelopes. edit adds the tables of the logs, which no version has yet.
func (o *opening) recordExpiry(edit *manifest.Edit, seq uint64) error {
	if len(o.prefixes) > 0 {
		v, err := o.set.Current().Apply(edit.Change())
		if err != nil {
			return err
		}
		defer v.Discard()
		if err = o.checkEnvelopes(v, seq); err != nil {
			return err
		}
	}
	prefixes := o.scans.Expiry.Prefixes()
	if n := manifest.PrefixBytes(prefixes); n > manifest.MaxPrefixBytes {
		return errors.Newf("sievedb: the prefixes of Options.Expiry and those that %s has recorded take %d bytes; at most %d are supported, "+
			"so put what expires under fewer prefixes", o.files.Path, n, manifest.MaxPrefixBytes)
	}
	if len(prefixes) > 0 {
		o.set.RecordPrefixes(prefixes)
	}
	return nil
}

// checkEnvelopes returns an error if a value under one of the added prefixes has no envelope.
func (o *opening) checkEnvelopes(v *version.Version, seq uint64) error {
	bounds := []scan.Options{{}} // in another order the keys under a prefix may be anywhere
	if o.opts.Comparer.IsBytewise() {
		bounds = bounds[:0]
		for _, prefix := range o.prefixes {
			bounds = append(bounds, scan.Options{LowerBound: prefix, UpperBound: keyspace.After(prefix)})
		}
	}
	source, open := o.scans, new(atomic.Bool) // the store is not open yet
	open.Store(true)
	source.Open = open
	for i := range bounds {
		bounds[i].NoFillCache, bounds[i].KeysOnly = true, true
		var c scan.Cursor
		v.TryRef() // v has a reference, and the cursor releases its own
		c.Start(&source, v, seq, source.Expiry.Now())
		c.Open(&bounds[i])
		for c.Next() {
		}
		c.Close()
		err := c.Err()
		if errors.Is(err, ErrNoEnvelope) {
			return errors.Newf("sievedb: Options.Expiry asks for the prefixes %q, but %s has values under them that were written without the option, "+
				"so they have no place for a time; it has recorded the prefixes %q: leave the others out and the database opens as before; "+
				"put values that should expire under a new prefix, or delete those first", o.prefixes, o.files.Path, o.set.Recorded().Prefixes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ExpiryPrefixes returns a copy of the prefixes that the database has recorded, in ascending order; see
// ExpiryOptions. It is empty if no value expires, and after Close.
func (d *DB) ExpiryPrefixes() [][]byte {
	if d == nil || d.closed.Load() {
		return nil
	}
	prefixes := d.scans.Expiry.Prefixes()
	if d.set != nil { // it has them also if Raw is set
		prefixes = d.set.Recorded().Prefixes
	}
	return expiry.Normal(prefixes)
}

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
	sealed, err := d.scans.Expiry.Seal(nil, key, value, ttl)
	if err != nil {
		return err
	}
	return d.write(kindSealed, key, sealed, wo)
}

// GetTTL returns a copy of the value of key, which belongs to the caller, or ErrNotFound, and how long it
// is shown from now on, 0 if it does not expire.
func (d *DB) GetTTL(key []byte) (value []byte, ttl time.Duration, err error) {
	s := d.NewSnapshot()
	defer s.Close()
	return s.GetTTL(key)
}

// GetTTL is DB.GetTTL as of the snapshot: the time to live begins with it.
func (s *Snapshot) GetTTL(key []byte) (value []byte, ttl time.Duration, err error) {
	if s == nil || s.closed.Load() {
		return nil, 0, ErrClosed
	}
	value, ends, err := s.getUntil(key)
	if s.closed.Load() {
		return nil, 0, ErrClosed
	}
	return value, expiry.Remaining(ends, s.at.Time), err
}

// getUntil is Get, and returns when the value expires.
func (s *Snapshot) getUntil(key []byte) (value []byte, ends uint64, err error) {
	at := s.at
	at.Ends = &ends
	value, err = s.db.get(key, &at)
	if s.at.Ends != nil { // of a transaction
		*s.at.Ends = expiry.Earlier(*s.at.Ends, ends)
	}
	return value, ends, err
}

// GetTTL is DB.GetTTL for what the transaction sees: the time to live begins with the transaction, and for
// its own writes it is that which they were given.
func (t *Transaction) GetTTL(key []byte) (value []byte, ttl time.Duration, err error) {
	if t.ended() {
		return nil, 0, ErrClosed
	}
	if value, kind, ok := t.own(key); ok {
		value, err = ownWrite([]byte{}, value, kind)
		return value, t.ownTTL(key), err
	}
	t.read(key)
	return t.snapshot.GetTTL(key)
}

// ownTTL returns the time to live of the transaction's newest write of key. It goes through all of them.
func (t *Transaction) ownTTL(key []byte) (ttl time.Duration) {
	for _, e := range t.batch.All() {
		if e.Kind != batch.EntryDeleteRange && t.db.opts.Comparer.Compare(e.Key, key) == 0 {
			ttl = e.TTL
		}
	}
	return ttl
}

// GetTTL is DB.GetTTL.
func (n *Namespace) GetTTL(key []byte) (value []byte, ttl time.Duration, err error) {
	k := n.stored(key)
	defer keyBuffers.Put(k)
	return n.db().GetTTL(*k)
}

// TTL returns how long the value is shown after the moment of the iterator, 0 if it does not expire or the
// iterator is not at a key.
func (i *Iterator) TTL() time.Duration {
	if i == nil {
		return 0
	}
	ttl, own := i.cursor.TTL()
	if own && i.txn != nil {
		return i.txn.ownTTL(i.cursor.StoredKey())
	}
	return ttl
}

// kindSealed is KindSet for write, of a value that has its envelope.
const kindSealed base.Kind = 0xff

// seal returns the kind and the value, with its envelope if it needs one, of an entry for write.
func (d *DB) seal(kind base.Kind, key, value []byte) (base.Kind, []byte, error) {
	switch kind {
	case kindSealed:
		return base.KindSet, value, nil
	case base.KindSet:
		value, err := d.scans.Expiry.Seal(nil, key, value, 0)
		return kind, value, err
	}
	return kind, value, nil
}

// sealBatch calls apply with a copy of b in which values have their envelopes.
func (d *DB) sealBatch(b *batch.Batch, apply func(*batch.Batch) error) error {
	sealed := batch.Borrow()
	defer batch.Return(sealed)
	if err := sealed.Seal(d.scans.Expiry, b); err != nil {
		return err
	}
	return apply(sealed)
}

// recordTime makes the MANIFEST record the time of the store when it closes.
func (d *DB) recordTime() error {
	if d.scans.Expiry.Now() == 0 || d.commit.Failure() != nil { // 0: nothing expires
		return nil
	}
	return d.commit.ApplyEdit(&manifest.Edit{}, nil, nil)
}
