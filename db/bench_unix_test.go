//go:build unix

package db_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Pages in docs have the figures of these benchmarks, and the comment of lookup's group.go those of MultiGet.

// walkedKeys is how many keys a store of walked has: even numbers of 16 digits. Their values compress to half, and all
// is in the cache.
const walkedKeys = 300_000

// walked returns a store settled in several levels or as one run.
func walked(b *testing.B, one bool) *db.DB {
	d := openDir(b, b.TempDir(), &db.Options{Memtables: db.MemtableOptions{Size: 8 << 20}, Cache: db.CacheOptions{Size: 256 << 20}})
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	rnd := rand.New(rand.NewPCG(7, 7))
	value := make([]byte, 100)
	for _, n := range rnd.Perm(walkedKeys) {
		for i := range 50 {
			value[i] = byte(rnd.Uint32())
		}
		copy(value[50:], value[:50])
		require.NoError(b, d.Put(walkedKey(nil, n), value, db.NoSync))
	}
	settle(b, d)
	if one {
		require.NoError(b, d.Compact(background, nil, nil))
	}
	return d
}

func walkedKey(dst []byte, n int) []byte { return fmt.Appendf(dst, "%016d", 2*n) }

// walker returns an iterator that has read all of a store.
func walker(b *testing.B, d *db.DB) *db.Iterator {
	it, err := d.NewIterator(nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, it.Close()) })
	require.Len(b, walk(b, it, false), walkedKeys)
	b.ReportAllocs()
	return it
}

// BenchmarkSeekForward measures what it costs to come to the key that is so many keys ahead: by a seek from the
// iterator's position, by as many calls of Next, and by a seek from elsewhere.
func BenchmarkSeekForward(all *testing.B) {
	for _, one := range []bool{true, false} {
		d := walked(all, one)
		for _, ahead := range []int{1, 3, 10, 30, 100, 1000, 10_000} {
			for _, way := range []string{"seek", "next", "elsewhere"} {
				all.Run(fmt.Sprintf("one=%t/ahead=%d/way=%s", one, ahead, way), func(b *testing.B) {
					seekForward(b, walker(b, d), ahead, way)
				})
			}
		}
	}
}

func seekForward(b *testing.B, it *db.Iterator, ahead int, way string) {
	rnd := rand.New(rand.NewPCG(1, 1))
	buf, at := make([]byte, 0, 32), walkedKeys
	for b.Loop() {
		if at += ahead; way == "elsewhere" {
			at = rnd.IntN(walkedKeys)
		}
		if at >= walkedKeys {
			at = 0
			it.First()
		}
		if way != "next" {
			buf = walkedKey(buf[:0], at)
			it.SeekGE(buf)
			continue
		}
		for range ahead {
			it.Next()
		}
	}
}

// BenchmarkManyRanges measures walks over ten keys, one after the other, while another iterator is open.
func BenchmarkManyRanges(all *testing.B) {
	d := walked(all, false)
	var it *db.Iterator
	for way, begin := range map[string]func(o *db.IterOptions) (*db.Iterator, error){
		"new": d.NewIterator, "clone": func(o *db.IterOptions) (*db.Iterator, error) { return it.Clone(o) }, "all": nil,
		"set bounds": func(o *db.IterOptions) (*db.Iterator, error) {
			it.SetBounds(o.LowerBound, o.UpperBound)
			return it, nil
		},
	} {
		all.Run("way="+way, func(b *testing.B) {
			it = walker(b, d)
			rnd := rand.New(rand.NewPCG(1, 1))
			var o db.IterOptions
			for b.Loop() {
				at := rnd.IntN(walkedKeys)
				o.LowerBound, o.UpperBound = walkedKey(o.LowerBound[:0], at), walkedKey(o.UpperBound[:0], at+10)
				if begin == nil {
					entries, failed := d.All(&o)
					for range entries {
					}
					require.NoError(b, failed())
					continue
				}
				one, err := begin(&o)
				require.NoError(b, err)
				for one.Next() {
				}
				if one != it {
					require.NoError(b, one.Close())
				}
			}
		})
	}
}

// cachedKeys returns n random keys of 16 bytes whose last bit is 0, or 1 with absent.
func cachedKeys(n int, absent bool) [][]byte {
	rnd := rand.New(rand.NewPCG(5, 5))
	keys := make([][]byte, n)
	for i := range keys {
		last := rnd.Uint64() &^ 1
		if absent {
			last |= 1
		}
		keys[i] = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rnd.Uint64()), last)
	}
	return keys
}

// eachCached runs a benchmark for stored keys and for absent ones, of a store that is in the block cache.
func eachCached(b *testing.B, n int, run func(hit bool, d *db.DB, keys [][]byte)) {
	d := openDir(b, "db", &db.Options{
		FS: vfs.NewMem(), Memtables: db.MemtableOptions{Size: 64 << 20}, Cache: db.CacheOptions{Size: 512 << 20},
		Tables: db.TableOptions{Compression: db.NoCompression},
	})
	defer d.Close()
	value := make([]byte, 100)
	for _, key := range cachedKeys(n, false) {
		require.NoError(b, d.Put(key, value, db.NoSync))
	}
	require.NoError(b, d.Compact(background, nil, nil))
	for _, hit := range []bool{true, false} {
		keys := cachedKeys(n, !hit)
		for _, key := range keys {
			if ok, err := d.Has(key); err != nil || ok != hit {
				b.Fatal("wrong answer", err)
			}
		}
		run(hit, d, keys)
	}
}

// BenchmarkMultiGet looks up groups of keys with MultiGet and with a loop of Gets. Times are per key. tenth-ns is the
// tenth percentile of the groups' times, which leaves out most of the other load on the machine. The keys of a group
// are drawn at random or are neighbours in ascending order.
func BenchmarkMultiGet(b *testing.B) {
	eachCached(b, 500_000, func(hit bool, d *db.DB, keys [][]byte) {
		for _, order := range []string{"random", "neighbours"} {
			if order == "neighbours" {
				slices.SortFunc(keys, db.BytewiseComparer.Compare)
			}
			for _, size := range []int{10, 100, 1000} {
				for _, multi := range []bool{false, true} {
					b.Run(fmt.Sprintf("hit=%t/order=%s/group=%d/multi=%t", hit, order, size, multi), func(b *testing.B) {
						b.ReportAllocs()
						getGroups(b, d, keys, size, multi)
					})
				}
			}
		}
	})
}

func getGroups(b *testing.B, d *db.DB, keys [][]byte, size int, multi bool) {
	values := make([][]byte, size)
	var times []time.Duration
	for done := 0; done < b.N; done += size {
		at := done % (len(keys) - size + 1)
		start := time.Now()
		var err error
		if multi {
			values, err = d.MultiGet(keys[at : at+size])
		} else {
			for i, key := range keys[at : at+size] {
				if values[i], err = d.Get(key); err == db.ErrNotFound {
					err = nil
				}
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/10].Nanoseconds())/float64(size), "tenth-ns")
}

// BenchmarkReaders has readers look up the same keys in the same few tables, with and without a concurrent writer.
// cpu-ns/op is the processor time of all threads per lookup. It does not grow with the number of readers as long as
// they do not wait for each other's cache lines. (Wall-clock time would show the same on a machine with a core for each
// reader.)
func BenchmarkReaders(b *testing.B) {
	eachCached(b, 100_000, func(hit bool, d *db.DB, keys [][]byte) {
		for _, writing := range []bool{false, true} {
			for _, readers := range []int{1, 2, 4} {
				b.Run(fmt.Sprintf("hit=%t/writer=%t/readers=%d", hit, writing, readers), func(b *testing.B) {
					if writing { // at a pace that uses little of a core
						defer writeEvery(10*time.Microsecond, d)()
					}
					readTogether(b, d, keys, hit, readers)
				})
			}
		}
	})
}

func readTogether(b *testing.B, d *db.DB, keys [][]byte, hit bool, readers int) {
	var reading sync.WaitGroup
	b.ResetTimer()
	before := processorTime(b)
	for r := range readers {
		reading.Go(func() {
			buf := make([]byte, 0, 128)
			for i := range b.N / readers {
				var err error
				if buf, err = d.GetTo(buf[:0], keys[(i*7+r*len(keys)/readers)%len(keys)]); (err == nil) != hit {
					b.Error("wrong answer")
					return
				}
			}
		})
	}
	reading.Wait()
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// writeEvery puts keys, with pauses, until end is called. That returns the time of the longest call.
func writeEvery(pause time.Duration, d *db.DB) (end func() time.Duration) {
	stop, ended := make(chan struct{}), make(chan time.Duration)
	go func() {
		longest := time.Duration(0)
		for i := 0; ; i++ {
			select {
			case <-stop:
				ended <- longest
				return
			case <-time.After(pause):
			}
			begun := time.Now()
			_ = d.Put(fmt.Appendf(nil, "other%09d", i), nil, db.NoSync)
			longest = max(longest, time.Since(begun))
		}
	}()
	return func() time.Duration { close(stop); return <-ended }
}

// BenchmarkWaitForALargeTransaction commits a million puts, in one transaction or in a thousand, while another
// goroutine writes one key at a time. It reports how long the commits took, and the longest wait of the other writer.
func BenchmarkWaitForALargeTransaction(all *testing.B) {
	const puts = 1_000_000
	value := make([]byte, 100)
	for _, size := range []int{puts, 1000} {
		all.Run(fmt.Sprintf("puts=%d", size), func(b *testing.B) {
			d := openDir(b, b.TempDir(), nil)
			defer d.Close()
			var took time.Duration
			end := writeEvery(100*time.Microsecond, d)
			for n := range uint64(b.N) * puts / uint64(size) {
				tx := d.NewTransaction(nil)
				tx.SetWriteOptions(db.NoSync)
				for i := range uint64(size) {
					key := fmt.Appendf(nil, "key%016d", (n*uint64(size)+i)%puts*0x9E3779B97F4A7C15)
					require.NoError(b, tx.Put(key, value))
				}
				begun := time.Now()
				require.NoError(b, tx.Commit())
				took += time.Since(begun)
			}
			b.ReportMetric(end().Seconds(), "s-longest-wait")
			b.ReportMetric(took.Seconds()/float64(b.N), "s/commit")
		})
	}
}

// BenchmarkDeleteRangeOfInterleavedSeries deletes the older half of one of two series that were written in turns. It
// reports the time, and the size of the directory before, after, and after a Compact.
func BenchmarkDeleteRangeOfInterleavedSeries(all *testing.B) {
	const entries = 500_000 // of each series
	for _, compacted := range []bool{false, true} {
		all.Run(fmt.Sprintf("compacted=%v", compacted), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				d := openDir(b, b.TempDir(), nil)
				for i := range 2 * entries {
					require.NoError(b, d.Put(fmt.Appendf(nil, "%c/%016d", "ab"[i%2], i/2), []byte("a value of 24 bytes here"), db.NoSync))
				}
				if compacted {
					require.NoError(b, d.Compact(background, nil, nil))
				}
				require.NoError(b, d.Flush())
				waitUntilIdle(d)
				reportSize(b, d, "MB-before")
				b.StartTimer()
				require.NoError(b, d.DeleteRange(background, []byte("a/"), fmt.Appendf(nil, "a/%016d", entries/2), nil))
				b.StopTimer()
				reportSize(b, d, "MB-after")
				require.NoError(b, d.Compact(background, nil, nil))
				reportSize(b, d, "MB-compacted")
				require.NoError(b, d.Close())
			}
		})
	}
}

func reportSize(b *testing.B, d *db.DB, as string) {
	u, err := d.DiskUsage()
	require.NoError(b, err)
	b.ReportMetric(float64(u.Tables+u.UnlistedTables+u.Logs)/1e6, as)
}
