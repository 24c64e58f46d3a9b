package load

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// store is a Host and a Compactor that record their calls.
type store struct {
	fs      *vfs.Mem
	calls   []string
	lastSeq uint64
	fail    string // the call that fails
	panics  string // the call that panics
	edit    *manifest.Edit
	ended   int
	nums    uint64
}

var errFailed = errors.New("this call fails")

func (s *store) call(name string) error {
	s.calls = append(s.calls, name)
	if name == s.panics {
		panic("in " + name)
	}
	if name == s.fail {
		return errFailed
	}
	return nil
}

func (s *store) Flush() error    { return s.call("flush") }
func (s *store) FlushLed() error { return s.call("flush the rest") }
func (s *store) LastSeq() uint64 { return s.lastSeq }
func (s *store) Schedule()       { _ = s.call("schedule") }

func (s *store) Lead(f func() error) error {
	if err := s.call("lead"); err != nil {
		return err
	}
	return f()
}

// Between checks that no table has its name before, and that all have it afterwards.
func (s *store) Between(f func() error) error {
	if err := s.call("between edits"); err != nil {
		return err
	}
	if s.fs == nil {
		return f()
	}
	before, _ := s.fs.List("dir")
	err := f()
	after, _ := s.fs.List("dir")
	for _, name := range before {
		if err == nil && (!strings.HasSuffix(name, ".dbtmp") || slices.Contains(after, name)) {
			return errors.Newf("%s was renamed at another time", name)
		}
	}
	return err
}

func (s *store) Install(edit *manifest.Edit, _ []*manifest.FileMeta, seq uint64) error {
	s.edit, s.lastSeq = edit, seq
	return s.call("install")
}

func (s *store) ClearLevel0(context.Context, []*manifest.FileMeta) error {
	return s.call("clear level 0")
}

func (s *store) Hold() func() {
	_ = s.call("hold")
	return func() { _ = s.call("release") }
}

func (s *store) Place(files []*manifest.FileMeta) (placed []manifest.LevelFile) {
	_ = s.call("place")
	for _, f := range files {
		placed = append(placed, manifest.LevelFile{Level: 3, File: f})
	}
	return placed
}

// newLoad returns a load with the sequence number 100 and tables of about 1 KiB.
func newLoad(t *testing.T) (*store, *Loader) {
	s := &store{fs: vfs.NewMem()}
	require.NoError(t, vfs.MkdirAllSynced(s.fs, "dir"))
	return s, newLoadOn(s.fs, s)
}

// newLoadOn is newLoad for a store that exists. The load's files are written through fsys.
func newLoadOn(fsys vfs.FS, s *store) *Loader {
	return New(Options{
		Cmp: base.Bytewise, Compactor: s, TableSize: 1 << 10, Plan: filterplan.New(filterplan.Options{}, nil), Seq: 100,
		Writer: tables.WriterOptions{
			Dir:        tables.Directory{FS: fsys, Path: "dir", Logger: slog.New(slog.DiscardHandler)},
			NewFileNum: func() uint64 { s.nums++; return s.nums },
			Table:      sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 256},
			Spares:     tables.NewSpareWriters(1, 1<<20),
		},
		Check: func(key, _ []byte) error {
			if len(key) > 100 {
				return errors.New("the key is too long")
			}
			return nil
		},
		InListener: func() bool { return false },
		Ended:      func() { s.ended++ },
	}, s)
}

// add adds n entries to the load.
func add(t *testing.T, l *Loader, n int) {
	for i := range n {
		require.NoError(t, l.Add(base.KindSet, fmt.Appendf(nil, "key%05d", i), fmt.Appendf(nil, "a value of %d", i*i*i)))
	}
}

// files returns the names of the files with a suffix.
func files(t *testing.T, fs *vfs.Mem, suffix string) (names []string) {
	all, err := fs.List("dir")
	require.NoError(t, err)
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}

func TestACommitInstallsDurableTablesWhileNoWriterWrites(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 300)
	require.NotEmpty(t, files(t, s.fs, ".dbtmp"))
	require.Empty(t, files(t, s.fs, ".ldb"))
	info, err := l.Commit()
	require.NoError(t, err)
	require.Equal(t, []string{
		"flush", "clear level 0", "lead", "flush the rest", "hold", "between edits", "place", "install", "release", "schedule",
	}, s.calls)
	require.EqualValues(t, 300, info.Entries)
	require.Greater(t, info.Tables[3], 2)
	require.Len(t, s.edit.Added, info.Tables[3])
	require.EqualValues(t, 100, s.lastSeq)
	var bytes, entries uint64
	names := files(t, s.fs.Crash(), ".ldb")
	for i, a := range s.edit.Added {
		require.Equal(t, names[i], a.File.Name(), "numbers ascend with the keys")
		bytes += a.File.Size
		entries += a.File.Counts.Load().Entries
		require.EqualValues(t, 100, a.File.Seqs.Load().Largest)
	}
	require.Equal(t, info.Bytes, bytes)
	require.EqualValues(t, 300, entries)
	require.Empty(t, files(t, s.fs, ".dbtmp"))
	require.Equal(t, 1, s.ended)
	require.Equal(t, base.ErrClosed, l.Add(base.KindSet, []byte("z"), nil))
	require.False(t, l.GiveUp(base.ErrClosed))
}

func TestAFailedCommitEndsTheLoadAndRemovesItsFiles(t *testing.T) {
	for _, fail := range []string{"flush", "clear level 0", "lead", "flush the rest"} {
		t.Run(fail, func(t *testing.T) {
			s, l := newLoad(t)
			add(t, l, 300)
			s.fail = fail
			info, err := l.Commit()
			require.ErrorIs(t, err, errFailed)
			require.Equal(t, err, info.Err)
			require.Zero(t, info.Tables)
			require.Nil(t, s.edit)
			require.Empty(t, files(t, s.fs, ""))
			require.Equal(t, 1, s.ended)
			require.Equal(t, err, l.Add(base.KindSet, []byte("z"), nil))
			_, again := l.Commit()
			require.Equal(t, err, again)
			require.NoError(t, l.Close())
			require.Equal(t, 1, s.ended)
		})
	}
}

func TestAWrongEntryEndsTheLoad(t *testing.T) {
	entries := map[string]string{
		"key00299":               "has the key of the one before it",
		"key00298":               "sorts before that of the one before it",
		strings.Repeat("z", 101): "the key is too long",
	}
	for key, want := range entries {
		t.Run(want, func(t *testing.T) {
			s, l := newLoad(t)
			add(t, l, 300)
			err := l.Add(base.KindSet, []byte(key), nil)
			require.ErrorContains(t, err, "entry 301")
			require.ErrorContains(t, err, want)
			require.Empty(t, files(t, s.fs, ""))
			require.Equal(t, 1, s.ended)
			require.Equal(t, err, l.Add(base.KindSet, []byte("zz"), nil))
			_, commit := l.Commit()
			require.Equal(t, err, commit)
			require.Empty(t, s.calls)
		})
	}
}

func TestALoadIsNotInstalledBelowWrites(t *testing.T) {
	for lastSeq, want := range map[uint64]string{99: "", 100: "writes happened during it", 101: "writes happened during it"} {
		s, l := newLoad(t)
		add(t, l, 1)
		s.lastSeq = lastSeq
		_, err := l.Commit()
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
			require.Nil(t, s.edit)
		}
	}
}

func TestReserveLeavesNumbersForOtherLoads(t *testing.T) {
	for last, want := range map[uint64]uint64{
		0:                   1<<32 - 1,
		base.MaxSeq - 1<<30: base.MaxSeq - 1<<30 + 1<<6,
		base.MaxSeq - 1<<24: base.MaxSeq - 1<<24 + 1,
		base.MaxSeq >> 1:    base.MaxSeq>>1 + 1<<31,
	} {
		seq, err := Reserve(last)
		require.NoError(t, err)
		require.Equal(t, want, seq)
	}
	_, err := Reserve(base.MaxSeq - 1<<24 + 1)
	require.ErrorContains(t, err, "too few sequence numbers")
}

// A load that is too low at its Commit gives its tables away, once.
func TestAnOvertakenLoadHandsItsTablesOver(t *testing.T) {
	for _, fails := range []error{nil, errFailed} {
		s, l := newLoad(t)
		var got []*manifest.FileMeta
		l.Overtaken = func(files []*manifest.FileMeta, info *Info) error {
			got, info.Bytes = files, 5
			return fails
		}
		add(t, l, 300)
		s.lastSeq = 100
		info, err := l.Commit()
		require.Equal(t, fails, err)
		require.Equal(t, fails, info.Err)
		require.EqualValues(t, 5, info.Bytes)
		require.Nil(t, s.edit)
		require.NotEmpty(t, got)
		require.Len(t, files(t, s.fs, ".dbtmp"), len(got), "they are not the load's any more")
		require.Equal(t, 1, s.ended)
	}
}
