package replay_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// Salvages and repairs of damaged databases have the same results.
func TestShortReadsChangeNoSalvageAndNoRepair(t *testing.T) {
	sample, _ := storetest.Sample(t)
	delete(sample, "CURRENT")
	outcome := func(t *testing.T, wrap func(vfs.FS) vfs.FS) (after []fixture.Contents, reports []string) {
		salvaged := damagedLog(t)
		d := storetest.MustOpen(t, &db.Options{FS: wrap(salvaged), Salvage: db.SalvageAll})
		reports = append(reports, fmt.Sprintf("%+v", d.OpenReport()))
		require.NoError(t, d.Close())
		repaired, rebuilt := damagedLog(t), sample.FS(t)
		for _, mem := range []*vfs.Mem{repaired, rebuilt} {
			report := storetest.RepairWith(t, "db", &db.Options{FS: wrap(mem)})
			reports = append(reports, report.String())
		}
		for _, mem := range []*vfs.Mem{salvaged, repaired, rebuilt} {
			after = append(after, storetest.ContentsOf(t, wrap(mem)))
		}
		require.Equal(t, fixture.ReadFile(t, damagedLog(t), filepath.Join("db", d.OpenReport().Logs[0].Name)),
			fixture.ReadFile(t, salvaged, filepath.Join("db", d.OpenReport().Logs[0].SetAside)))
		return after, reports
	}
	want, wantReports := outcome(t, func(fsys vfs.FS) vfs.FS { return fsys })
	got, gotReports := outcome(t, fixture.ShortReads)
	require.Equal(t, want, got)
	require.Equal(t, wantReports, gotReports)
}

// failingReads are the ways in which a read fails without any damage to the file, including an end
// of file where there is none.
var failingReads = map[string]func(op wrap.Op) *wrap.Fault{
	"fails":               func(wrap.Op) *wrap.Fault { return &wrap.Fault{Err: syscall.EIO} },
	"fails in the middle": func(op wrap.Op) *wrap.Fault { return &wrap.Fault{Err: syscall.EIO, Short: op.Length / 2} },
	"ends early":          func(op wrap.Op) *wrap.Fault { return &wrap.Fault{Err: io.EOF, Short: op.Length / 2} },
	"ends immediately":    func(wrap.Op) *wrap.Fault { return &wrap.Fault{Err: io.EOF} },
	"returns nothing":     func(wrap.Op) *wrap.Fault { return &wrap.Fault{Quiet: true} },
}

// tablesAndLog returns a small database of two tables and a log with records, and its contents.
func tablesAndLog(t *testing.T) (fixture.Dir, fixture.Contents) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, storetest.Options(mem))
	for i := range 30 {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
		if i%10 == 9 && i < 20 {
			require.NoError(t, d.Flush())
		}
	}
	require.NoError(t, d.Close())
	return fixture.ReadDir(t, mem, "db"), storetest.ContentsOf(t, mem)
}

// openFor returns a function that opens and closes the database.
func openFor(salvage db.Salvage) func(fsys vfs.FS) error {
	return func(fsys vfs.FS) error {
		d, err := db.Open("db", &db.Options{FS: fsys, Salvage: salvage})
		if err != nil {
			return err
		}
		return d.Close()
	}
}

// failRead returns a file system that fails the read with index at and, if sticky is set, all later
// ones, and the number of reads.
func failRead(mem vfs.FS, at int64, sticky bool, fault func(op wrap.Op) *wrap.Fault) (vfs.FS, *atomic.Int64) {
	reads := new(atomic.Int64)
	return wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind != wrap.OpRead {
			return nil
		}
		if n := reads.Add(1) - 1; n == at || sticky && n > at {
			return fault(op)
		}
		return nil
	}), reads
}

// readAction is an operation that reads all of a database.
type readAction struct {
	name  string
	files fixture.Dir
	act   func(fsys vfs.FS) error
}

// failEachRead fails each read of the action in turn. Whatever the action returns, the database must
// have the contents want. It returns the number of runs and how many of them returned an error.
func (a readAction) failEachRead(t *testing.T, how string, sticky bool, want fixture.Contents) (runs, refused int) {
	for at := int64(0); ; at++ {
		mem := a.files.FS(t)
		faulty, reads := failRead(mem, at, sticky, failingReads[how])
		err := a.act(faulty)
		if reads.Load() <= at {
			return runs, refused // every read has failed once
		}
		runs++
		if err != nil {
			refused++
			require.False(t, how == "fails" && errors.Is(err, db.ErrCorruption), "read %d: %v", at, err)
		}
		if err != nil && a.name == "repair" {
			require.NoError(t, db.Repair("db", &db.Options{FS: mem}), "read %d", at)
		}
		require.Equal(t, want, storetest.ContentsOf(t, mem), "read %d: %v", at, err)
	}
}

// A read of a recovery, a salvage or a repair fails, once or from then on. The operation fails, or its
// result is right: no error may be taken for the end of a log, or for damage that may be skipped.
func TestAFailedReadIsNotTheEndOfALog(t *testing.T) {
	race.SkipInShort(t)
	killed, want := tablesAndLog(t)
	withoutCurrent := killed.Clone()
	delete(withoutCurrent, "CURRENT")
	for _, a := range []readAction{
		{"open", killed, openFor(db.SalvageNothing)},
		{"salvage", killed, openFor(db.SalvageAll)},
		{"repair", withoutCurrent, func(fsys vfs.FS) error { return db.Repair("db", &db.Options{FS: fsys}) }},
	} {
		for how := range failingReads {
			for _, sticky := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/sticky=%v", a.name, how, sticky), func(t *testing.T) {
					runs, refused := a.failEachRead(t, how, sticky, want)
					t.Logf("%d runs, of which %d were refused", runs, refused)
					require.Positive(t, runs)
					if sticky {
						require.Positive(t, refused)
					}
				})
			}
		}
	}
}
