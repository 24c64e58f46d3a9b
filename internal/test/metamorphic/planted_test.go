package metamorphic

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	reports "github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// forgetsADeletion acknowledges one deletion and does nothing: after each
// opening the tenth of those that had something to delete.
type forgetsADeletion struct {
	*db.DB
	n *int
}

func (s forgetsADeletion) Delete(key []byte, wo *db.WriteOptions) error {
	if has, err := s.Has(key); err == nil && has {
		if *s.n++; *s.n == 10 {
			return nil
		}
	}
	return s.DB.Delete(key, wo)
}

// neverSyncs takes synced writes for others.
type neverSyncs struct{ *db.DB }

func (s neverSyncs) Put(key, value []byte, _ *db.WriteOptions) error {
	return s.DB.Put(key, value, db.NoSync)
}
func (s neverSyncs) Delete(key []byte, _ *db.WriteOptions) error { return s.DB.Delete(key, db.NoSync) }
func (s neverSyncs) Apply(b *db.Batch, _ *db.WriteOptions) error { return s.DB.Apply(b, db.NoSync) }
func (s neverSyncs) SyncLog() error                              { return nil }

// ignoresUpperBounds shows keys after the end of an iterator.
type ignoresUpperBounds struct{ *db.DB }

func (s ignoresUpperBounds) NewIterator(o *db.IterOptions) (*db.Iterator, error) {
	return s.DB.NewIterator(&db.IterOptions{LowerBound: o.LowerBound})
}

// staleSnapshots gives out a snapshot a second time.
type staleSnapshots struct {
	*db.DB
	last *[]*db.Snapshot
}

func (s staleSnapshots) NewSnapshot() *db.Snapshot {
	*s.last = append(*s.last, s.DB.NewSnapshot())
	return (*s.last)[max(0, len(*s.last)-2)]
}

// losesATable ingests all tables but the last.
type losesATable struct{ *db.DB }

func (s losesATable) Ingest(ctx context.Context, paths []string, o *db.IngestOptions) (reports.Ingest, error) {
	return s.DB.Ingest(ctx, paths[:len(paths)-1], o)
}

// deletesNoRange acknowledges deletions of ranges only.
type deletesNoRange struct{ *db.DB }

func (deletesNoRange) DeleteRange(context.Context, []byte, []byte, *db.WriteOptions) error {
	return nil
}

// makesPermanent forgets when the values that it modifies expire.
type makesPermanent struct{ *db.DB }

func (s makesPermanent) Modify(key []byte, fn func(old []byte) ([]byte, error), wo *db.WriteOptions) error {
	return s.ModifyTTL(key, func(old []byte, _ time.Duration) ([]byte, time.Duration, error) {
		value, err := fn(old)
		return value, 0, err
	}, wo)
}

func (s makesPermanent) CompareAndSwap(key, old, value []byte, wo *db.WriteOptions) (bool, error) {
	return s.CompareAndSwapTTL(key, old, value, 0, wo)
}

// forgetsPrefixes opens a database without the expiry prefixes that are not named.
func forgetsPrefixes(dir string, o *db.Options) (Store, error) {
	o.Expiry.Raw = len(o.Expiry.Prefixes) == 0
	return OpenDB(dir, o)
}

// deniesAll is a filter that lies, except to the writer: its filters are longer than those that the writer checks.
type deniesAll struct{ admitsAll }

func (deniesAll) NewGenerator() filter.Generator { return &liar{} }
func (deniesAll) KeyMayMatch(_, _ []byte) bool   { return false }

type liar struct{ n int }

func (g *liar) Add([]byte)                             { g.n++ }
func (g *liar) Len() int                               { return g.n }
func (g *liar) AppendFilter(dst []byte) []byte         { g.n = 0; return append(dst, '!') }
func (g *liar) AppendChecked(dst []byte) ([]byte, int) { return g.AppendFilter(dst), 0 }

// A machine that finds nothing must be shown to find what is there.
func TestPlantedFaultsAreFound(t *testing.T) {
	wrap := func(plant func(*db.DB) Store) OpenFunc {
		return func(dir string, o *db.Options) (Store, error) {
			d, err := db.Open(dir, o)
			if err != nil {
				return nil, err
			}
			return plant(d), nil
		}
	}
	for _, c := range []struct {
		name string
		open OpenFunc
	}{
		{"one deletion is forgotten", wrap(func(d *db.DB) Store { return forgetsADeletion{d, new(int)} })},
		{"synced writes are not synced", wrap(func(d *db.DB) Store { return neverSyncs{d} })},
		{"an upper bound is ignored", wrap(func(d *db.DB) Store { return ignoresUpperBounds{d} })},
		{"a snapshot is stale", wrap(func(d *db.DB) Store { return staleSnapshots{d, &[]*db.Snapshot{}} })},
		{"an ingest loses a table", wrap(func(d *db.DB) Store { return losesATable{d} })},
		{"ranges are not deleted", wrap(func(d *db.DB) Store { return deletesNoRange{d} })},
		{"a modified value does not expire", wrap(func(d *db.DB) Store { return makesPermanent{d} })},
		{"expiry prefixes are forgotten", forgetsPrefixes},
		{"one kind of filter denies stored keys", func(dir string, o *db.Options) (Store, error) {
			if o.Filters.Policy == filter.None {
				o.Filters.Policy = deniesAll{}
			}
			return OpenDB(dir, o)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := 0
			for seed := uint64(1); seed <= 5 && found == 0; seed++ {
				out := Run(Config{Seed: seed, Ops: 1000, Sets: 8, Open: c.open})
				for _, d := range out.Differences {
					require.NotEqual(t, d.RightAnswer, d.Answer)
					require.NotEmpty(t, d.Op)
				}
				found += len(out.Differences)
			}
			require.NotZero(t, found)
		})
	}
}

func TestAGoroutineLeftBehindIsFound(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	d, err := db.Open("db", &db.Options{FS: vfs.NewMem(), EventListener: &db.EventListener{FlushEnd: func(db.FlushInfo) {
		close(begun)
		<-release
	}}})
	require.NoError(t, err)
	require.NoError(t, d.Put([]byte("key"), nil, db.NoSync))
	flushed := make(chan error)
	go func() { flushed <- d.Flush() }()
	<-begun
	require.NotEmpty(t, storeGoroutines())
	close(release)
	require.NoError(t, <-flushed)
	require.NoError(t, d.Close())
	require.Empty(t, storeGoroutines())
}
