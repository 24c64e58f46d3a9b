package db_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// copyOf copies values that go vet would not let a test copy.
func copyOf[T any](x *T) T { return *x }

// The bug: two copies of a Batch shared their bytes, including the count of entries, so Apply wrote
// log records that did not decode. Apply panicked, and the directory no longer opened.
func TestCopiesOfABatchAreRefused(t *testing.T) {
	fs := vfs.NewMem()
	d := mustOpen(t, testOptions(fs))
	var base db.Batch
	base.Put([]byte("base"), []byte("1"))
	a, b := copyOf(&base), copyOf(&base)
	a.Put([]byte("a"), []byte("2"))
	b.Put([]byte("bb"), []byte("33"))
	require.ErrorContains(t, d.Apply(&a, db.Sync), "copy of another Batch")
	require.ErrorContains(t, d.Apply(&b, db.Sync), "copy of another Batch")
	untouched := copyOf(&base)
	base.Put([]byte("more"), []byte("4"))
	require.ErrorContains(t, d.Apply(&untouched, db.NoSync), "copy of another Batch")
	require.EqualValues(t, 0, d.Metrics().LastSequence, "nothing was written")

	require.NoError(t, d.Apply(&base, db.Sync), "the original is unchanged")
	a.Reset()
	a.Put([]byte("a"), []byte("5"))
	base.Reset()
	base.Put([]byte("b"), []byte("6"))
	require.NoError(t, d.Apply(&a, db.Sync), "a copy that was reset has its own memory")
	require.NoError(t, d.Apply(&base, db.Sync))
	require.NoError(t, d.Close())

	d = openTest(t, testOptions(fs))
	for key, want := range map[string]string{"base": "1", "more": "4", "a": "5", "b": "6"} {
		requireValue(t, d, []byte(key), []byte(want))
	}
	require.EqualValues(t, 4, d.Metrics().LastSequence)
}

// The bug: a Batch that was assigned an older copy of itself still counted the dropped entries.
func TestABatchMayBeAssignedItsOlderCopy(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	var b db.Batch
	b.Put([]byte("kept"), []byte("1"))
	before := copyOf(&b)
	b.Put([]byte("dropped"), []byte("2"))
	b = copyOf(&before)
	require.Equal(t, 1, b.Len())
	require.NoError(t, d.Apply(&b, db.NoSync))
	require.EqualValues(t, 1, d.Metrics().LastSequence)
	requireValue(t, d, []byte("kept"), []byte("1"))
}

// The bug: goroutines that wrote to one Batch and applied it concurrently made records that did not
// decode: in 8 of 10 runs Apply panicked, and the directory no longer opened.
func TestABatchSharedByGoroutinesDoesNotHarmTheStore(t *testing.T) {
	fs := vfs.NewMem()
	d := mustOpen(t, testOptions(fs))
	b := &db.Batch{}
	b.Put(testKey(0), testValue(0))
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := range 2000 {
				n := 1 + (w*2000+i)%100
				b.Put(testKey(n), testValue(n))
				if i%16 == 0 {
					if err := d.Apply(b, db.NoSync); err != nil && !isBatchMisuse(err) {
						t.Error(err)
					}
					b.Reset()
				}
			}
		})
	}
	group.Wait()
	b.Reset()
	b.Put([]byte("last"), []byte("1"))
	require.NoError(t, d.Apply(b, db.Sync), "Reset makes the batch usable again")
	requireValue(t, d, []byte("last"), []byte("1"))
	require.NoError(t, d.Close())
	d = openTest(t, testOptions(fs))
	requireValue(t, d, []byte("last"), []byte("1"))
	it, err := d.NewIterator(&db.IterOptions{UpperBound: []byte("last")})
	require.NoError(t, err)
	defer it.Close()
	for key, value := range it.All() {
		var n int
		for _, digit := range key[len("key"):] {
			n = 10*n + int(digit-'0')
		}
		require.Equal(t, testKey(n), key)
		require.Equal(t, testValue(n), value)
	}
	require.NoError(t, it.Err())
}

func isBatchMisuse(err error) bool {
	for _, text := range []string{"several goroutines used the batch", "another goroutine used it meanwhile"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// The bug: a Put, a Reset or a second Apply during an Apply changed the bytes that the commit leader wrote.
func TestUseOfABatchDuringItsApplyIsReported(t *testing.T) {
	mem := vfs.NewMem()
	h := hook{at: of(wrap.OpWrite, ".log")}
	o := testOptions(h.over(mem))
	d := mustOpen(t, o)
	b := &db.Batch{}
	for name, use := range map[string]func(){
		"put":   func() { b.Put([]byte("late"), nil) },
		"reset": b.Reset,
		"reset after a refused put": func() {
			b.Put([]byte("late"), nil)
			b.Reset()
			b.Put([]byte("late"), nil)
		},
		"apply": func() { require.ErrorContains(t, d.Apply(b, db.NoSync), "several goroutines") },
	} {
		b.Put([]byte(name), []byte("1"))
		h.arm(use)
		require.ErrorContains(t, d.Apply(b, db.NoSync), "was written, but", name)
		requireValue(t, d, []byte(name), []byte("1"))
		require.Equal(t, 1, b.Len(), name)
		require.ErrorContains(t, d.Apply(b, db.NoSync), "several goroutines", name)
		b.Reset()
	}
	require.NoError(t, d.Close())
	o.FS = mem
	d = openTest(t, o)
	requireValue(t, d, []byte("put"), []byte("1"))
	_, err := d.Get([]byte("late"))
	require.ErrorIs(t, err, db.ErrNotFound)
}
