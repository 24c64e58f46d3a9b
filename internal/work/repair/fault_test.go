package repair_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/work/repair"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// brokenStores returns directories that a repair has much to do with.
func brokenStores(t testing.TB) map[string]fixture.Dir {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase, o.Tables.Compression = 4<<10, 4<<10, 8<<10, db.NoCompression
	d := storetest.MustOpen(t, o)
	for i := range 180 {
		require.NoError(t, d.Put(fixture.Key(i*7%120), fmt.Appendf(nil, "value%0100d", i), db.NoSync))
		if i%9 == 0 {
			require.NoError(t, d.Delete(fixture.Key(i%60), db.NoSync))
		}
	}
	storetest.Settle(t, d)
	for i := range 20 {
		require.NoError(t, d.Put(fixture.Key(i*3), fixture.Value(i), db.NoSync))
	}
	require.NoError(t, d.Close())
	files := fixture.ReadDir(t, mem, "db")
	require.GreaterOrEqual(t, len(files.Tables()), 3)
	manifestName, log := files.Only(base.FileManifest)[0], files.Only(base.FileLog)[0]

	stores := map[string]fixture.Dir{}
	for name, damage := range map[string]func(fixture.Dir){
		"torn log":           func(d fixture.Dir) { d[log] = d[log][:len(d[log])-1] },
		"CURRENT missing":    func(d fixture.Dir) { delete(d, "CURRENT") },
		"CURRENT garbled":    func(d fixture.Dir) { d["CURRENT"] = []byte("MANI") },
		"MANIFEST damaged":   func(d fixture.Dir) { d[manifestName][40] ^= 1 },
		"nothing but tables": func(d fixture.Dir) { delete(d, manifestName); delete(d, "CURRENT"); delete(d, log) },
		"table and log damaged": func(d fixture.Dir) {
			table := d.Tables()[0]
			d[table][len(d[table])/3] ^= 1
			d[log][len(d[log])/2] ^= 1
		},
	} {
		stores[name] = files.Clone()
		damage(stores[name])
	}
	return stores
}

// mutates reports whether an operation changes files, or makes changes durable.
func mutates(k wrap.OpKind) bool {
	return slices.Contains([]wrap.OpKind{wrap.OpCreate, wrap.OpRemove, wrap.OpRename, wrap.OpMkdirAll, wrap.OpSyncDir, wrap.OpLock, wrap.OpWrite, wrap.OpSync}, k)
}

// repairUnder repairs a database while hook is called before each operation.
func repairUnder(fsys vfs.FS, hook func(op wrap.Op) *wrap.Fault) error {
	return db.Repair("db", storetest.Options(wrap.NewFaulty(fsys, hook)))
}

// repairWatched repairs a database, and calls watch before the nth operation.
func repairWatched(t *testing.T, fsys vfs.FS, n uint64, watch func()) {
	t.Helper()
	require.NoError(t, repairUnder(fsys, func(op wrap.Op) *wrap.Fault {
		if op.Index == n {
			watch()
		}
		return nil
	}))
}

// eachFault calls run for every operation of a repair that changes something, and for one in seventeen of the others.
func eachFault(t *testing.T, d fixture.Dir, run func(n uint64, op wrap.Op)) {
	var ops []wrap.Op
	require.NoError(t, repairUnder(d.FS(t), func(op wrap.Op) *wrap.Fault {
		ops = append(ops, op)
		return nil
	}))
	for n, op := range ops {
		if testing.Short() && n%3 != 0 {
			continue
		}
		if mutates(op.Kind) || n%17 == 0 {
			run(uint64(n), op)
		}
	}
}

// requireSurvives requires that after has the bytes of all files of d except CURRENT.
func requireSurvives(t *testing.T, d, after fixture.Dir, where string) {
	t.Helper()
	sums := map[uint32]bool{}
	for _, b := range after {
		sums[util.CRC32C(b)] = true
	}
	for name, b := range d {
		if name != base.CurrentName {
			require.True(t, sums[util.CRC32C(b)], "%s is lost: %s", name, where)
		}
	}
}

//make:gates
func TestRepairCanBeRepeatedAfterAFailureAnywhere(t *testing.T) {
	for name, d := range brokenStores(t) {
		t.Run(name, func(t *testing.T) {
			want, _, _ := storetest.Repaired(t, d)
			require.NotEmpty(t, want)
			eachFault(t, d, func(n uint64, op wrap.Op) {
				for kind, hook := range map[string]func(wrap.Op) *wrap.Fault{
					"once": wrap.FailNth(n, wrap.ErrInjected), "from": wrap.FailFrom(n, wrap.ErrInjected),
				} {
					where := fmt.Sprintf("%s %d, %s of %s", kind, n, op.Kind, op.Name)
					mem := d.FS(t)
					err := repairUnder(mem, hook)
					if err != nil {
						require.ErrorIs(t, err, wrap.ErrInjected, where)
					}
					after := fixture.ReadDir(t, mem, "db")
					requireSurvives(t, d, after, where)
					if kind == "once" && err != nil && len(after.Only(base.FileManifest)) == len(d.Only(base.FileManifest)) && !hasLost(after) {
						d.RequireSame(t, after) // the repair has removed the files that it made
					}
					if err != nil {
						storetest.MustRepair(t, mem)
					}
					require.Equal(t, want, storetest.ContentsOf(t, mem), where)
					requireSurvives(t, d, fixture.ReadDir(t, mem, "db"), where)
				}
			})
		})
	}
}

func hasLost(d fixture.Dir) bool {
	for name := range d {
		if strings.HasPrefix(name, manifest.LostDir+"/") {
			return true
		}
	}
	return false
}

//make:gates
func TestRepairCanBeRepeatedAfterACrashAnywhere(t *testing.T) {
	for name, d := range brokenStores(t) {
		t.Run(name, func(t *testing.T) {
			want, whole, _ := storetest.Repaired(t, d)
			eachFault(t, d, func(n uint64, op wrap.Op) {
				where := fmt.Sprintf("before operation %d, %s of %s", n, op.Kind, op.Name)
				mem := d.FS(t)
				var powerLost, killed *vfs.Mem // the files after a power cut, and after a kill
				repairWatched(t, mem, n, func() { powerLost, killed = mem.Crash(), fixture.ReadDir(t, mem, "db").FS(t) })
				for _, left := range []*vfs.Mem{powerLost, killed} {
					files := fixture.ReadDir(t, left, "db")
					requireSurvives(t, d, files, where)
					if name != "table and log damaged" { // an Open shows less of that one
						requireRefusedOrEqual(t, files.FS(t), want, where)
					}
					again := storetest.MustRepair(t, left)
					if !again.Healthy { // else CURRENT was switched already
						require.Equal(t, whole.Incomplete, again.Incomplete, "%s\n%s", where, again)
						require.GreaterOrEqual(t, again.EntriesLost, whole.EntriesLost, where)
						require.GreaterOrEqual(t, again.BytesLost, whole.BytesLost, where)
					}
					require.Equal(t, want, storetest.ContentsOf(t, left), where)
					requireSurvives(t, d, fixture.ReadDir(t, left, "db"), where)
				}
			})
		})
	}
}

// The bug: a second repair replaced the note of the interrupted one before its own MANIFEST was there. If it failed
// too, as on a full disk, the third one used the MANIFEST of the first, and said that nothing is lost.
//
//make:gates
func TestTheThirdRepairAfterTwoInterruptedOnesSaysWhatIsLost(t *testing.T) {
	d := brokenStores(t)["table and log damaged"]
	want, whole, _ := storetest.Repaired(t, d)
	require.True(t, whole.Incomplete)
	mem := d.FS(t)
	require.ErrorIs(t, repairUnder(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRename && filepath.Base(op.NewName) == base.CurrentName {
			return &wrap.Fault{Err: wrap.ErrInjected}
		}
		return nil
	}), wrap.ErrInjected)
	first := fixture.ReadDir(t, mem, "db")
	eachFault(t, first, func(n uint64, op wrap.Op) {
		where := fmt.Sprintf("before operation %d, %s of %s", n, op.Kind, op.Name)
		full := first.FS(t)
		if repairUnder(full, wrap.FailFrom(n, wrap.ErrInjected)) == nil {
			return // the repair was complete
		}
		crashed := first.FS(t)
		var killed *vfs.Mem
		repairWatched(t, crashed, n, func() { killed = fixture.ReadDir(t, crashed, "db").FS(t) })
		for _, left := range []*vfs.Mem{full, killed} {
			if third := storetest.MustRepair(t, left); !third.Healthy { // else CURRENT was switched already
				require.True(t, third.Incomplete, "%s\n%s", where, third)
				require.GreaterOrEqual(t, third.EntriesLost, whole.EntriesLost, where)
				require.GreaterOrEqual(t, third.BytesLost, whole.BytesLost, where)
			}
			require.Equal(t, want, storetest.ContentsOf(t, left), where)
		}
	})
}

// The bug: the note of a repair that failed and removed its MANIFEST stayed, although a MANIFEST of the same number
// could be written later.
func TestAFailedRepairLeavesNoNoteAboutAMANIFESTThatIsGone(t *testing.T) {
	d := brokenStores(t)["table and log damaged"]
	mem := d.FS(t)
	failed := ""
	require.ErrorIs(t, repairUnder(mem, func(op wrap.Op) *wrap.Fault {
		if kind, _, _ := base.ParseFileName(filepath.Base(op.Name)); op.Kind != wrap.OpSync || kind != base.FileManifest {
			return nil
		}
		failed = op.Name
		return &wrap.Fault{Err: wrap.ErrInjected}
	}), wrap.ErrInjected)
	require.NotEmpty(t, failed)
	d.RequireSame(t, fixture.ReadDir(t, mem, "db"))
}

// requireRefusedOrEqual opens the files that an interrupted repair leaves, for writing.
func requireRefusedOrEqual(t *testing.T, mem *vfs.Mem, want fixture.Contents, where string) {
	t.Helper()
	d, err := db.Open("db", storetest.Options(mem))
	if err != nil {
		require.ErrorIs(t, err, db.ErrCorruption, where)
		return
	}
	require.NoError(t, d.Close())
	require.Equal(t, want, storetest.ContentsOf(t, mem), where)
}

// history records when each value was written and when each key was deleted.
type history struct {
	when    map[string]uint64   // by value: its operation
	deleted map[string][]uint64 // by key: its deletions
	keys    map[string]map[string]bool
	last    uint64
}

func randomStore(t *testing.T, rnd *rand.Rand) (fixture.Dir, *history) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 4<<10, 4<<10, 8<<10
	o.Tables.BlockSize = 64 << rnd.IntN(5)
	o.Tables.Compression = db.Compression(rnd.IntN(4))
	o.Limits.ManifestSize = 4 << 10
	d := storetest.MustOpen(t, o)
	h := &history{when: map[string]uint64{}, deleted: map[string][]uint64{}, keys: map[string]map[string]bool{}}
	for range 300 + rnd.IntN(1500) {
		h.last++
		key := fixture.Key(rnd.IntN(150))
		switch rnd.IntN(30) {
		default:
			value := fmt.Sprintf("value%d.%0*d", h.last, rnd.IntN(200), 0)
			require.NoError(t, d.Put(key, []byte(value), db.NoSync))
			h.when[value] = h.last
			if h.keys[string(key)] == nil {
				h.keys[string(key)] = map[string]bool{}
			}
			h.keys[string(key)][value] = true
		case 0, 1, 2, 3:
			require.NoError(t, d.Delete(key, db.NoSync))
			h.deleted[string(key)] = append(h.deleted[string(key)], h.last)
		case 4:
			if rnd.IntN(8) == 0 {
				require.NoError(t, d.Close())
				d = storetest.MustOpen(t, o)
			}
		}
	}
	if rnd.IntN(2) == 0 {
		storetest.Settle(t, d)
	}
	require.NoError(t, d.Close())
	return fixture.ReadDir(t, mem, "db"), h
}

// damageOne breaks a random file and returns its name.
func damageOne(d fixture.Dir, rnd *rand.Rand) string {
	kinds := [][]base.FileKind{{base.FileTable}, {base.FileLog}, {base.FileManifest}, {base.FileCurrent}, {base.FileTable}}
	names := d.Only(kinds[rnd.IntN(len(kinds))]...)
	if len(names) == 0 {
		return ""
	}
	name := names[rnd.IntN(len(names))]
	b := d[name]
	switch op := rnd.IntN(6); {
	case op == 0 || len(b) == 0:
		delete(d, name)
	case op == 1:
		d[name] = b[:rnd.IntN(len(b))]
	case op == 2: // an unwritten sector
		from := rnd.IntN(len(b)) &^ 511
		clear(b[from:min(from+512, len(b))])
	case op == 3:
		for range 20 {
			b[rnd.IntN(len(b))] = byte(rnd.UintN(256))
		}
	default:
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
	}
	return name
}

func TestRepairOfRandomDamageRestoresTheNewestSurvivingVersions(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	for range 6 {
		files, h := randomStore(t, rnd)
		for range 15 {
			d := files.Clone()
			var touched []string
			for range 1 + rnd.IntN(4) {
				touched = append(touched, damageOne(d, rnd))
			}
			untouched := d.Clone()
			for _, name := range touched {
				delete(untouched, name)
			}
			if len(d.Only(repair.DatabaseKinds...)) == 0 {
				continue
			}
			sure := untouched.Versions(t)
			if len(sure) == 0 && requireHopeless(t, d) {
				continue
			}
			got, rep, _ := storetest.Repaired(t, d)
			for key, value := range got {
				require.True(t, h.keys[key][value], "a value that was never written for its key")
			}
			for key, all := range sure {
				newest := slices.MaxFunc(all, func(a, b fixture.Version) int { return int(int64(a.Seq) - int64(b.Seq)) })
				h.requireNotOlder(t, key, newest, got, rep)
			}
		}
	}
}

// requireHopeless reports whether nothing in the directory can be read, so that a repair fails. It
// requires that such a repair changes nothing.
func requireHopeless(t *testing.T, d fixture.Dir) bool {
	t.Helper()
	mem := d.FS(t)
	err := db.Repair("db", storetest.Options(mem))
	if err == nil {
		return false
	}
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "none of its tables, logs and MANIFESTs can be read")
	require.Equal(t, d, fixture.ReadDir(t, mem, "db"))
	return true
}

// requireNotOlder compares the value that was found for a key with a version in an untouched file.
// Sequence numbers count the operations.
func (h *history) requireNotOlder(t *testing.T, key string, sure fixture.Version, got fixture.Contents, rep *db.RepairReport) {
	t.Helper()
	value, found := got[key]
	if found {
		require.GreaterOrEqual(t, h.when[value], sure.Seq, "an older version than one that survived\n%s", rep)
		return
	}
	deleted := h.deleted[key]
	require.True(t, len(deleted) > 0 && deleted[len(deleted)-1] >= sure.Seq, "a version that survived is not found\n%s", rep)
}

// A new MANIFEST that cannot be removed again needs its tables.
func TestRepairKeepsTheTablesOfAManifestThatItCannotRemove(t *testing.T) {
	d := brokenStores(t)["MANIFEST damaged"]
	want, _, _ := storetest.Repaired(t, d)
	mem := d.FS(t)
	written := false
	err := repairUnder(mem, func(op wrap.Op) *wrap.Fault {
		kind, _, _ := base.ParseFileName(filepath.Base(op.Name))
		written = written || op.Kind == wrap.OpCreate && kind == base.FileManifest
		if written && (op.Kind == wrap.OpSyncDir || op.Kind == wrap.OpRemove && kind == base.FileManifest) {
			return &wrap.Fault{}
		}
		return nil
	})
	require.ErrorIs(t, err, wrap.ErrInjected)
	left := fixture.ReadDir(t, mem, "db")
	require.Greater(t, len(left.Only(base.FileManifest)), len(d.Only(base.FileManifest)))
	require.Greater(t, len(left.Tables()), len(d.Tables()))
	storetest.MustRepair(t, mem)
	require.Equal(t, want, storetest.ContentsOf(t, mem))
}

// Tables with matching checksums and malformed contents must not survive unchanged if they would mislead a lookup.
func TestRepairOfMalformedTablesLeavesADatabaseThatCanBeRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 6))
	var entries []fixture.Entry
	for i := range 60 {
		entries = append(entries, fixture.Put(string(fixture.Key(i)), uint64(i+1), string(fixture.Value(i))))
	}
	forge := result.Of(damage.NewForge(fixture.Table(t, entries...)))(t)
	repaired := 0
	for range 150 {
		table, changed := forge.Build(rnd, forge.Sites())
		files := fixture.Dir{
			"000005.ldb": table,
			"000006.ldb": fixture.Table(t, fixture.Put(string(fixture.Key(3)), 900, "newest")),
		}
		mem := files.FS(t)
		want, ok := newestOf(t, mem, "000005.ldb", fixture.Key(3), 900, "newest")
		err := db.Repair("db", storetest.Options(mem))
		if errors.Is(err, db.ErrNewer) || err != nil && strings.Contains(err.Error(), "has another comparer") {
			files.RequireSame(t, fixture.ReadDir(t, mem, "db"))
			continue
		}
		require.NoError(t, err, "%q", changed)
		repaired++
		got, found := storetest.ContentsOf(t, mem)[string(fixture.Key(3))]
		require.Equal(t, ok, found, "%q", changed)
		require.Equal(t, want, got, "%q", changed)
		require.NoError(t, db.Repair("db", storetest.Options(mem)), "%q", changed)
	}
	require.Positive(t, repaired)
}

// newestOf returns the value that key must have if the entries of a table count. Forging may have
// given its entry there a greater sequence number than seq, or made such an entry a tombstone, and
// nothing shows that it is forged. ok is false for a tombstone.
func newestOf(t *testing.T, fsys vfs.FS, table string, key []byte, seq uint64, value string) (newest string, ok bool) {
	t.Helper()
	f := result.Of(fsys.Open(filepath.Join("db", table)))(t)
	defer f.Close()
	newest, ok = value, true
	_, err := sstable.Salvage(f, sstable.ReaderOptions{}, func(ikey, v []byte) error {
		s, kind := base.SplitTrailer(base.Trailer(ikey))
		if bytes.Equal(base.UserKey(ikey), key) && s > seq {
			seq, newest, ok = s, string(v), kind == base.KindSet
		}
		return nil
	})
	require.NoError(t, err)
	return newest, ok
}

// FuzzRepair repairs a directory of arbitrary bytes. The repair must neither panic nor fail, and
// must leave a database that opens.
func FuzzRepair(f *testing.F) {
	for _, d := range brokenStores(f) {
		table := d.Tables()[0]
		log, manifestName := d.Only(base.FileLog), d.Only(base.FileManifest)
		f.Add(d[table], d[append(log, "none")[0]], d[append(manifestName, "none")[0]], d["CURRENT"])
	}
	f.Fuzz(func(t *testing.T, table, log, manifestBytes, current []byte) {
		defer damage.Watch("the repair of a forged directory")()
		if bytes.Contains(manifestBytes, []byte("parator")) && !bytes.Contains(manifestBytes, []byte(base.Bytewise.Name)) {
			return // it may name another comparer, which is refused
		}
		mem := fixture.Dir{
			"000005.ldb": table, "000007.log": log, "MANIFEST-000004": manifestBytes, "CURRENT": current,
			"000006.ldb": fixture.Table(t, fixture.Put("key", 1, "value")),
		}.FS(t)
		err := db.Repair("db", storetest.Options(mem))
		if errors.Is(err, db.ErrNewer) || err != nil && strings.Contains(err.Error(), "has another comparer") {
			return
		}
		require.NoError(t, err)
		d := storetest.MustOpen(t, storetest.Options(mem))
		it := storetest.Iter(t, d, nil)
		for range it.All() {
		}
		require.NoError(t, it.Err())
		require.NoError(t, it.Close())
		require.NoError(t, d.Close())
	})
}
