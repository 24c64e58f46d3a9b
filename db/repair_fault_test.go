package db

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

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/work/repair"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// brokenStores returns directories that a repair has much to do with.
func brokenStores(t testing.TB) map[string]repairDir {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase, o.Tables.Compression = 4<<10, 4<<10, 8<<10, NoCompression
	d := mustOpen(t, o)
	for i := range 180 {
		require.NoError(t, d.Put(testKey(i*7%120), fmt.Appendf(nil, "value%0100d", i), NoSync))
		if i%9 == 0 {
			require.NoError(t, d.Delete(testKey(i%60), NoSync))
		}
	}
	settle(t, d)
	for i := range 20 {
		require.NoError(t, d.Put(testKey(i*3), testValue(i), NoSync))
	}
	require.NoError(t, d.Close())
	files := readDir(t, mem, "db")
	require.GreaterOrEqual(t, len(files.tables()), 3)
	manifestName, log := files.only(base.FileManifest)[0], files.only(base.FileLog)[0]

	stores := map[string]repairDir{}
	for name, damage := range map[string]func(repairDir){
		"torn log":           func(d repairDir) { d[log] = d[log][:len(d[log])-1] },
		"CURRENT missing":    func(d repairDir) { delete(d, "CURRENT") },
		"CURRENT garbled":    func(d repairDir) { d["CURRENT"] = []byte("MANI") },
		"MANIFEST damaged":   func(d repairDir) { d[manifestName][40] ^= 1 },
		"nothing but tables": func(d repairDir) { delete(d, manifestName); delete(d, "CURRENT"); delete(d, log) },
		"table and log damaged": func(d repairDir) {
			table := d.tables()[0]
			d[table][len(d[table])/3] ^= 1
			d[log][len(d[log])/2] ^= 1
		},
	} {
		stores[name] = files.clone()
		damage(stores[name])
	}
	return stores
}

// mutates reports whether an operation changes files, or makes changes durable.
func mutates(k wrap.OpKind) bool {
	return slices.Contains([]wrap.OpKind{wrap.OpCreate, wrap.OpRemove, wrap.OpRename, wrap.OpMkdirAll, wrap.OpSyncDir, wrap.OpLock, wrap.OpWrite, wrap.OpSync}, k)
}

// eachFault calls run for every operation of a repair that changes something, and for one in
// seventeen of the others.
func (d repairDir) eachFault(t *testing.T, run func(n uint64, op wrap.Op)) {
	var ops []wrap.Op
	require.NoError(t, Repair("db", testOptions(wrap.NewFaulty(d.fs(t), func(op wrap.Op) *wrap.Fault {
		ops = append(ops, op)
		return nil
	}))))
	for n, op := range ops {
		if mutates(op.Kind) || n%17 == 0 {
			run(uint64(n), op)
		}
	}
}

// requireSurvives requires that after has the bytes of all files except CURRENT.
func (d repairDir) requireSurvives(t *testing.T, after repairDir, where string) {
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

func TestRepairCanBeRepeatedAfterAFailureAnywhere(t *testing.T) {
	for name, d := range brokenStores(t) {
		t.Run(name, func(t *testing.T) {
			want, _, _ := d.repaired(t)
			require.NotEmpty(t, want)
			d.eachFault(t, func(n uint64, op wrap.Op) {
				for kind, hook := range map[string]func(wrap.Op) *wrap.Fault{
					"once": wrap.FailNth(n, wrap.ErrInjected), "from": wrap.FailFrom(n, wrap.ErrInjected),
				} {
					where := fmt.Sprintf("%s %d, %s of %s", kind, n, op.Kind, op.Name)
					mem := d.fs(t)
					err := Repair("db", testOptions(wrap.NewFaulty(mem, hook)))
					if err != nil {
						require.ErrorIs(t, err, wrap.ErrInjected, where)
					}
					after := readDir(t, mem, "db")
					d.requireSurvives(t, after, where)
					if kind == "once" && err != nil && len(after.only(base.FileManifest)) == len(d.only(base.FileManifest)) && !hasLost(after) {
						requireSameFiles(t, d, after) // the repair has removed the files that it made
					}
					if err != nil {
						mustRepair(t, mem)
					}
					require.Equal(t, want, contentsOf(t, mem), where)
					d.requireSurvives(t, readDir(t, mem, "db"), where)
				}
			})
		})
	}
}

func hasLost(d repairDir) bool {
	for name := range d {
		if strings.HasPrefix(name, manifest.LostDir+"/") {
			return true
		}
	}
	return false
}

func TestRepairCanBeRepeatedAfterACrashAnywhere(t *testing.T) {
	for name, d := range brokenStores(t) {
		t.Run(name, func(t *testing.T) {
			want, whole, _ := d.repaired(t)
			d.eachFault(t, func(n uint64, op wrap.Op) {
				where := fmt.Sprintf("before operation %d, %s of %s", n, op.Kind, op.Name)
				mem := d.fs(t)
				var powerLost, killed *vfs.Mem // the files after a power cut, and after a kill
				err := Repair("db", testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
					if op.Index == n {
						powerLost, killed = mem.Crash(), readDir(t, mem, "db").fs(t)
					}
					return nil
				})))
				require.NoError(t, err)
				for _, left := range []*vfs.Mem{powerLost, killed} {
					files := readDir(t, left, "db")
					d.requireSurvives(t, files, where)
					if name != "table and log damaged" { // an Open shows less of that one
						requireRefusedOrEqual(t, files.fs(t), want, where)
					}
					again := mustRepair(t, left)
					if !again.Healthy { // else CURRENT was switched already
						require.Equal(t, whole.Incomplete, again.Incomplete, "%s\n%s", where, again)
						require.GreaterOrEqual(t, again.EntriesLost, whole.EntriesLost, where)
						require.GreaterOrEqual(t, again.BytesLost, whole.BytesLost, where)
					}
					require.Equal(t, want, contentsOf(t, left), where)
					d.requireSurvives(t, readDir(t, left, "db"), where)
				}
			})
		})
	}
}

// The bug: a second repair replaced the note of the interrupted one before its own MANIFEST was there. If it failed too,
// as on a full disk, the third one used the MANIFEST of the first, and said that nothing is lost.
func TestTheThirdRepairAfterTwoInterruptedOnesSaysWhatIsLost(t *testing.T) {
	d := brokenStores(t)["table and log damaged"]
	want, whole, _ := d.repaired(t)
	require.True(t, whole.Incomplete)
	mem := d.fs(t)
	require.ErrorIs(t, Repair("db", testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRename && filepath.Base(op.NewName) == base.CurrentName {
			return &wrap.Fault{Err: wrap.ErrInjected}
		}
		return nil
	}))), wrap.ErrInjected)
	first := readDir(t, mem, "db")
	first.eachFault(t, func(n uint64, op wrap.Op) {
		where := fmt.Sprintf("before operation %d, %s of %s", n, op.Kind, op.Name)
		full := first.fs(t)
		if Repair("db", testOptions(wrap.NewFaulty(full, wrap.FailFrom(n, wrap.ErrInjected)))) == nil {
			return // the repair was complete
		}
		crashed := first.fs(t)
		var killed *vfs.Mem
		require.NoError(t, Repair("db", testOptions(wrap.NewFaulty(crashed, func(op wrap.Op) *wrap.Fault {
			if op.Index == n {
				killed = readDir(t, crashed, "db").fs(t)
			}
			return nil
		}))))
		for _, left := range []*vfs.Mem{full, killed} {
			if third := mustRepair(t, left); !third.Healthy { // else CURRENT was switched already
				require.True(t, third.Incomplete, "%s\n%s", where, third)
				require.GreaterOrEqual(t, third.EntriesLost, whole.EntriesLost, where)
				require.GreaterOrEqual(t, third.BytesLost, whole.BytesLost, where)
			}
			require.Equal(t, want, contentsOf(t, left), where)
		}
	})
}

// The bug: the note of a repair that failed and removed its MANIFEST stayed, although a MANIFEST of the same number could
// be written later.
func TestAFailedRepairLeavesNoNoteAboutAMANIFESTThatIsGone(t *testing.T) {
	d := brokenStores(t)["table and log damaged"]
	mem := d.fs(t)
	failed := ""
	require.ErrorIs(t, Repair("db", testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if kind, _, _ := base.ParseFileName(filepath.Base(op.Name)); op.Kind != wrap.OpSync || kind != base.FileManifest {
			return nil
		}
		failed = op.Name
		return &wrap.Fault{Err: wrap.ErrInjected}
	}))), wrap.ErrInjected)
	require.NotEmpty(t, failed)
	requireSameFiles(t, d, readDir(t, mem, "db"))
}

// requireRefusedOrEqual opens the files that an interrupted repair leaves, for writing.
func requireRefusedOrEqual(t *testing.T, mem *vfs.Mem, want contents, where string) {
	t.Helper()
	d, err := Open("db", testOptions(mem))
	if err != nil {
		require.ErrorIs(t, err, ErrCorruption, where)
		return
	}
	require.NoError(t, d.Close())
	require.Equal(t, want, contentsOf(t, mem), where)
}

// history records when each value was written and when each key was deleted.
type history struct {
	when    map[string]uint64   // by value: its operation
	deleted map[string][]uint64 // by key: its deletions
	keys    map[string]map[string]bool
	last    uint64
}

func randomStore(t *testing.T, rnd *rand.Rand) (repairDir, *history) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 4<<10, 4<<10, 8<<10
	o.Tables.BlockSize = 64 << rnd.IntN(5)
	o.Tables.Compression = Compression(rnd.IntN(4))
	o.Limits.ManifestSize = 4 << 10
	d := mustOpen(t, o)
	h := &history{when: map[string]uint64{}, deleted: map[string][]uint64{}, keys: map[string]map[string]bool{}}
	for range 300 + rnd.IntN(1500) {
		h.last++
		key := testKey(rnd.IntN(150))
		switch rnd.IntN(30) {
		default:
			value := fmt.Sprintf("value%d.%0*d", h.last, rnd.IntN(200), 0)
			require.NoError(t, d.Put(key, []byte(value), NoSync))
			h.when[value] = h.last
			if h.keys[string(key)] == nil {
				h.keys[string(key)] = map[string]bool{}
			}
			h.keys[string(key)][value] = true
		case 0, 1, 2, 3:
			require.NoError(t, d.Delete(key, NoSync))
			h.deleted[string(key)] = append(h.deleted[string(key)], h.last)
		case 4:
			if rnd.IntN(8) == 0 {
				require.NoError(t, d.Close())
				d = mustOpen(t, o)
			}
		}
	}
	if rnd.IntN(2) == 0 {
		settle(t, d)
	}
	require.NoError(t, d.Close())
	return readDir(t, mem, "db"), h
}

// damageOne breaks a random file and returns its name.
func (d repairDir) damageOne(rnd *rand.Rand) string {
	kinds := [][]base.FileKind{{base.FileTable}, {base.FileLog}, {base.FileManifest}, {base.FileCurrent}, {base.FileTable}}
	names := d.only(kinds[rnd.IntN(len(kinds))]...)
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
			d := files.clone()
			var touched []string
			for range 1 + rnd.IntN(4) {
				touched = append(touched, d.damageOne(rnd))
			}
			untouched := d.clone()
			for _, name := range touched {
				delete(untouched, name)
			}
			if len(d.only(repair.DatabaseKinds...)) == 0 {
				continue
			}
			sure := untouched.versions(t)
			if len(sure) == 0 && d.requireHopeless(t) {
				continue
			}
			got, rep, _ := d.repaired(t)
			for key, value := range got {
				require.True(t, h.keys[key][value], "a value that was never written for its key")
			}
			for key, all := range sure {
				newest := slices.MaxFunc(all, func(a, b version) int { return int(int64(a.seq) - int64(b.seq)) })
				h.requireNotOlder(t, key, newest, got, rep)
			}
		}
	}
}

// requireHopeless reports whether nothing in the directory can be read, so that a repair fails. It
// requires that such a repair changes nothing.
func (d repairDir) requireHopeless(t *testing.T) bool {
	t.Helper()
	mem := d.fs(t)
	err := Repair("db", testOptions(mem))
	if err == nil {
		return false
	}
	require.ErrorIs(t, err, ErrCorruption)
	require.ErrorContains(t, err, "none of its tables, logs and MANIFESTs can be read")
	require.Equal(t, d, readDir(t, mem, "db"))
	return true
}

// requireNotOlder compares the value that was found for a key with a version in an untouched file.
// Sequence numbers count the operations.
func (h *history) requireNotOlder(t *testing.T, key string, sure version, got contents, rep *RepairReport) {
	t.Helper()
	value, found := got[key]
	if found {
		require.GreaterOrEqual(t, h.when[value], sure.seq, "an older version than one that survived\n%s", rep)
		return
	}
	deleted := h.deleted[key]
	require.True(t, len(deleted) > 0 && deleted[len(deleted)-1] >= sure.seq, "a version that survived is not found\n%s", rep)
}

// A new MANIFEST that cannot be removed again needs its tables.
func TestRepairKeepsTheTablesOfAManifestThatItCannotRemove(t *testing.T) {
	d := brokenStores(t)["MANIFEST damaged"]
	want, _, _ := d.repaired(t)
	mem := d.fs(t)
	written := false
	err := Repair("db", testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		kind, _, _ := base.ParseFileName(filepath.Base(op.Name))
		written = written || op.Kind == wrap.OpCreate && kind == base.FileManifest
		if written && (op.Kind == wrap.OpSyncDir || op.Kind == wrap.OpRemove && kind == base.FileManifest) {
			return &wrap.Fault{}
		}
		return nil
	})))
	require.ErrorIs(t, err, wrap.ErrInjected)
	left := readDir(t, mem, "db")
	require.Greater(t, len(left.only(base.FileManifest)), len(d.only(base.FileManifest)))
	require.Greater(t, len(left.tables()), len(d.tables()))
	mustRepair(t, mem)
	require.Equal(t, want, contentsOf(t, mem))
}

// Tables with matching checksums and malformed contents must not survive unchanged if they would
// mislead a lookup.
func TestRepairOfMalformedTablesLeavesADatabaseThatCanBeRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 6))
	var entries []craftedEntry
	for i := range 60 {
		entries = append(entries, put(string(testKey(i)), uint64(i+1), string(testValue(i))))
	}
	forge, err := damage.NewForge(craftTable(t, entries...))
	require.NoError(t, err)
	repaired := 0
	for range 150 {
		table, changed := forge.Build(rnd, forge.Sites())
		files := repairDir{
			"000005.ldb": table,
			"000006.ldb": craftTable(t, put(string(testKey(3)), 900, "newest")),
		}
		mem := files.fs(t)
		want, ok := newestOf(t, mem, "000005.ldb", testKey(3), 900, "newest")
		err := Repair("db", testOptions(mem))
		if errors.Is(err, ErrNewer) || err != nil && strings.Contains(err.Error(), "has another comparer") {
			requireSameFiles(t, files, readDir(t, mem, "db"))
			continue
		}
		require.NoError(t, err, "%q", changed)
		repaired++
		got, found := contentsOf(t, mem)[string(testKey(3))]
		require.Equal(t, ok, found, "%q", changed)
		require.Equal(t, want, got, "%q", changed)
		require.NoError(t, Repair("db", testOptions(mem)), "%q", changed)
	}
	require.Positive(t, repaired)
}

// newestOf returns the value that key must have if the entries of a table count. Forging may have
// given its entry there a greater sequence number than seq, or made such an entry a tombstone, and
// nothing shows that it is forged. ok is false for a tombstone.
func newestOf(t *testing.T, fsys vfs.FS, table string, key []byte, seq uint64, value string) (newest string, ok bool) {
	t.Helper()
	f, err := fsys.Open(filepath.Join("db", table))
	require.NoError(t, err)
	defer f.Close()
	newest, ok = value, true
	_, err = sstable.Salvage(f, sstable.ReaderOptions{}, func(ikey, v []byte) error {
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
		table := d.tables()[0]
		log, manifestName := d.only(base.FileLog), d.only(base.FileManifest)
		f.Add(d[table], d[append(log, "none")[0]], d[append(manifestName, "none")[0]], d["CURRENT"])
	}
	f.Fuzz(func(t *testing.T, table, log, manifestBytes, current []byte) {
		defer damage.Watch("the repair of a forged directory")()
		if bytes.Contains(manifestBytes, []byte("parator")) && !bytes.Contains(manifestBytes, []byte(base.Bytewise.Name)) {
			return // it may name another comparer, which is refused
		}
		mem := repairDir{
			"000005.ldb": table, "000007.log": log, "MANIFEST-000004": manifestBytes, "CURRENT": current,
			"000006.ldb": craftTable(t, put("key", 1, "value")),
		}.fs(t)
		err := Repair("db", testOptions(mem))
		if errors.Is(err, ErrNewer) {
			return
		}
		require.NoError(t, err)
		d, err := Open("db", testOptions(mem))
		require.NoError(t, err)
		it, err := d.NewIterator(nil)
		require.NoError(t, err)
		for range it.All() {
		}
		require.NoError(t, it.Err())
		require.NoError(t, it.Close())
		require.NoError(t, d.Close())
	})
}
