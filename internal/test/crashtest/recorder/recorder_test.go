package recorder

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		r := New(Image{})
		require.NoError(t, r.MkdirAll("dir"))
		return r, "dir"
	})
}

func put(t *testing.T, fsys vfs.FS, name string, sync bool, parts ...string) {
	t.Helper()
	f, err := vfs.Replace(fsys, name)
	require.NoError(t, err)
	for _, p := range parts {
		_, err = f.Write([]byte(p))
		require.NoError(t, err)
	}
	if sync {
		require.NoError(t, f.Sync())
	}
	require.NoError(t, f.Close())
}

// script runs steps on a recorder. After each step it records the contents of the vfs.Mem after a
// crash (least) and without one (most).
func script(t *testing.T, r *FS) (least, most map[int]map[string]string) {
	t.Helper()
	least, most = map[int]map[string]string{}, map[int]map[string]string{}
	steps := []func() error{
		func() error { return r.MkdirAll("a/b") },
		func() error { return r.SyncDir(".") },
		func() error { put(t, r, "a/one", true, "first", "second"); return nil },
		func() error { return r.SyncDir("a") },
		func() error { put(t, r, "a/two", false, strings.Repeat("x", 3000)); return nil },
		func() error { return r.Link("a/one", "a/b/link") },
		func() error { return r.Rename("a/two", "a/one") },
		func() error { return r.SyncDir("a/b") },
		func() error { return r.Remove("a/b/link") },
		func() error { put(t, r, "a/one", true, "third"); return nil },
		func() error { return r.Rename("a/one", "a/b/moved") },
		func() error { return r.SyncDir("a") },
		func() error { l, err := r.Lock("a/LOCK", false); require.NoError(t, err); return l.Close() },
		func() error { return r.SyncDir("a/b") },
	}
	for _, step := range steps {
		require.NoError(t, step())
		least[r.Len()] = vfstest.Tree(t, r.Mem().Crash(), ".")
		most[r.Len()] = vfstest.Tree(t, r.Mem(), ".")
	}
	return least, most
}

func TestM0AndM1AgreeWithTheFileSystem(t *testing.T) {
	r := New(Image{})
	least, most := script(t, r)
	c := r.Trace().Cursor()
	compared := 0
	for c.Next() {
		for model, want := range map[Model]map[int]map[string]string{M0: least, M1: most} {
			if want[c.Cut()] == nil {
				continue
			}
			states := slices.Collect(c.States(model, 1))
			require.Len(t, states, 1)
			require.Equal(t, want[c.Cut()], vfstest.Tree(t, states[0].Mem(), "."), "%v at %s", model, r.Trace().At(c.Cut()))
			compared++
		}
	}
	require.Equal(t, 2*len(least), compared)
}

func TestARecordingContinuesFromAnImage(t *testing.T) {
	first := New(Image{})
	_, most := script(t, first)
	c := first.Trace().Cursor()
	c.Seek(first.Len())
	image := slices.Collect(c.States(M1, 1))[0].Image
	second := New(image)
	require.Equal(t, most[first.Len()], vfstest.Tree(t, second, "."))
	put(t, second, "a/new", true, "x")
	c = second.Trace().Cursor()
	require.Equal(t, most[first.Len()], vfstest.Tree(t, slices.Collect(c.States(M0, 1))[0].Mem(), "."), "an image is durable")
	c.Seek(second.Len())
	require.Equal(t, most[first.Len()], vfstest.Tree(t, slices.Collect(c.States(M0, 1))[0].Mem(), "."), "an unsynced name is not durable")
}

func TestTornStatesCutTheLastUnsyncedWriteAtSectors(t *testing.T) {
	r := New(Image{})
	f, err := r.Create("log")
	require.NoError(t, err)
	_, err = f.Write(make([]byte, 700))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.Write(make([]byte, 1000))
	require.NoError(t, err)
	c := r.Trace().Cursor()
	c.Seek(r.Len())
	var sizes []int
	for s := range c.States(M2, 1) {
		sizes = append(sizes, len(s.Files[0].Data))
		require.Contains(t, s.Detail, "write 1000 bytes at 700 of log")
	}
	require.Len(t, sizes, 3)
	require.Equal(t, []int{1024, 1536}, sizes[:2])
	require.Greater(t, sizes[2], 700)
	require.Less(t, sizes[2], 1700)
	require.NoError(t, f.Sync())
	c = r.Trace().Cursor()
	c.Seek(r.Len())
	require.Empty(t, slices.Collect(c.States(M2, 1)), "everything is synced")
}

func TestRandomStatesKeepSyncedBytesAndShowEveryOutcome(t *testing.T) {
	r := New(Image{})
	put(t, r, "old", true, "old")
	f, err := r.Create("data")
	require.NoError(t, err)
	_, err = f.Write([]byte(strings.Repeat("s", 5000)))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, r.SyncDir("."))
	for _, b := range "tuvw" {
		_, err = f.Write([]byte(strings.Repeat(string(b), 4096)))
		require.NoError(t, err)
	}
	require.NoError(t, r.Rename("old", "new"))
	put(t, r, "late", true, "late")
	require.NoError(t, r.Remove("new"))
	c := r.Trace().Cursor()
	c.Seek(r.Len())
	seen := map[Model]map[string]bool{}
	for model := M3; model < NumModels; model++ {
		seen[model] = map[string]bool{}
		for seed := range uint64(300) {
			s := slices.Collect(c.States(model, seed))[0]
			again := slices.Collect(c.States(model, seed))[0]
			require.Equal(t, s, again, "a state can be replayed")
			names := ""
			for _, f := range s.Files {
				if f.Path != "data" {
					names += f.Path + " "
					continue
				}
				require.Equal(t, strings.Repeat("s", 5000), string(f.Data[:5000]))
				if model == M3 {
					require.Empty(t, strings.Trim(string(f.Data[5000:]), "tuvw\x00"))
				}
				seen[model][fmt.Sprint("length ", len(f.Data))] = true
			}
			seen[model]["names "+names] = true
		}
		require.Contains(t, seen[model], "length 5000", model)
		require.Contains(t, seen[model], fmt.Sprint("length ", 5000+4*4096), model)
		require.Contains(t, seen[model], "names old ", model)
		require.Contains(t, seen[model], "names late ", model)
		require.Contains(t, seen[model], "names new ", model)
	}
	require.Contains(t, seen[M3], "length 8192", "each page is there or not")
	require.Contains(t, seen[M5], "names late new ", "the removal without the rename before it")
}

func TestTheTraceHasTheOrderOfConcurrentOperations(t *testing.T) {
	r := New(Image{})
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			f, err := r.Create(fmt.Sprint(w))
			if err != nil {
				panic(err)
			}
			for i := range 200 {
				before := r.Len()
				_, _ = f.Write([]byte{byte(w), byte(i)})
				after := r.Len()
				found := false
				for _, op := range r.Trace().Ops[before:after] {
					found = found || op.Kind == wrap.OpWrite && op.Name == fmt.Sprint(w) && op.Offset == 2*i
				}
				if !found {
					panic("a write is not between the lengths read before and after")
				}
			}
			_ = f.Close()
		})
	}
	group.Wait()
	c := r.Trace().Cursor()
	c.Seek(r.Len())
	require.Equal(t, vfstest.Tree(t, r.Mem(), "."), vfstest.Tree(t, slices.Collect(c.States(M1, 0))[0].Mem(), "."))
}

func TestModelsAreNamed(t *testing.T) {
	for m := M0; m < NumModels; m++ {
		parsed, err := ParseModel(m.String())
		require.NoError(t, err)
		require.Equal(t, m, parsed)
		require.Equal(t, m == M1, m.KeepsAll())
	}
	_, err := ParseModel("M9")
	require.ErrorContains(t, err, "M9")
}
