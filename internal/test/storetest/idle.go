package storetest

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// WaitUntilIdle waits until no memtable is to be flushed and no compaction is running, if none is due. The files that
// they made obsolete may not be removed yet; see StrayFilesWhenIdle.
func WaitUntilIdle(d *db.DB) {
	for m := d.Metrics(); m.Memtables.Count > 1 || len(m.Compactions.Running) > 0; m = d.Metrics() {
		time.Sleep(time.Millisecond)
	}
}

// StrayFilesWhenIdle waits until the files in "db" that an idle store does not need are removed. That happens after
// the work that made them unneeded, on a busy machine long after. It returns an error if some stay.
func StrayFilesWhenIdle(d *db.DB, fsys vfs.FS) error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		err := strayFiles(d, fsys)
		if err == nil || err == db.ErrClosed || time.Since(start) > time.Minute {
			return err
		}
	}
}

func strayFiles(d *db.DB, fsys vfs.FS) error {
	tables, err := d.Tables()
	if err != nil {
		return err
	}
	live := map[uint64]bool{}
	for _, t := range tables {
		live[t.FileNum] = true
	}
	values, err := d.ValueTables()
	if err != nil {
		return err
	}
	for _, t := range values {
		live[t.FileNum] = true
	}
	names, err := fsys.List("db")
	if err != nil {
		return err
	}
	logs, manifests := 0, 0
	for _, name := range names {
		kind, num, ok := base.ParseFileName(filepath.Base(name))
		if !ok {
			continue
		}
		switch kind {
		case base.FileTable, base.FileValues:
			if !live[num] {
				return fmt.Errorf("%s was not removed although no level has it", name)
			}
		case base.FileLog:
			logs++
		case base.FileManifest:
			manifests++
		case base.FileTemp:
			return fmt.Errorf("%s was not removed", name)
		}
	}
	if logs != 1 || manifests != 1 {
		return fmt.Errorf("an idle store should have one log and one MANIFEST, but its files are %q", names)
	}
	return nil
}
