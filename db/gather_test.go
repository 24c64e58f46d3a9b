package db

import (
	"sync"
	"testing"
	"time"

	"github.com/sievedb/sievedb/vfs"
)

// slowSyncs delays each sync by about as much as a good disk does.
type slowSyncs struct{ vfs.FS }

type slowSyncFile struct{ vfs.File }

func (s slowSyncs) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return slowSyncFile{f}, err
}

func (f slowSyncFile) Sync() error {
	<-time.After(300 * time.Microsecond)
	return f.File.Sync()
}

// putTogether has the given number of writers put keys 0 to n-1.
func putTogether(t testing.TB, d *DB, writers, n int, wo *WriteOptions) {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := w; i < n; i += writers {
				if err := d.Put(testKey(i), testValue(i), wo); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// Sixteen writers in two halves that take turns would share a sync among eight writes on any machine.
// If the machine is too busy to let all of them queue up in time, the test tries again.
func TestSyncedWritersDoNotTakeTurns(t *testing.T) {
	const writers, n = 16, 640
	d := openTest(t, &Options{FS: slowSyncs{vfs.NewMem()}, Memtables: MemtableOptions{Size: 64 << 20}})
	eventually(t, func() bool {
		before := d.Metrics().Writes.LogSyncs
		putTogether(t, d, writers, n, Sync)
		return d.Metrics().Writes.LogSyncs-before <= n/12
	})
}
