package damage_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
)

var (
	damageShapes  = flag.Bool("damage.shapes", false, "damage databases of all shapes instead of one")
	damageDoubles = flag.Int("damage.doubles", 1000, "number of random double flips")
)

// modes are the ways to open a damaged database.
var modes = map[string]bool{"read-only": true, "for writing": false}

// Every bit of every file is flipped, one at a time. Each answer is right or ErrCorruption. The only exception is the
// last record of a log that was not closed, where damage can look like the end that a crash leaves.
//
//make:gates
func TestEveryFlippedBitIsDetectedOrHarmless(t *testing.T) {
	race.SkipInShort(t)
	for _, shape := range shapesToDamage() {
		for state, v := range newVictims(t, shape) {
			for mode, readOnly := range modes {
				t.Run(shape.name+"/"+state+"/"+mode, func(t *testing.T) {
					t.Parallel()
					v.flipAll(t, readOnly)
				})
			}
		}
	}
}

func (v *victim) flipAll(t *testing.T, readOnly bool) {
	counts := tallies{}
	lastRecordDropped := 0
	for _, name := range v.image.Names() {
		for h := range damage.Flips(v.image, name) {
			if h.Offset%v.flipStep(name, readOnly) != 0 {
				continue
			}
			out := v.check(t, h, readOnly, false)
			counts.add(fixture.KindName(name), out.Class)
			if out.State > 0 {
				lastRecordDropped++
			}
			if v.closed && name == v.log {
				require.Equal(t, damage.Refused, out.Class, h.What)
			}
		}
	}
	counts.log(t, "bit flips")
	t.Logf("%d bytes; %d flips in the log's last record dropped it", v.image.Size(), lastRecordDropped)
	require.False(t, v.closed && lastRecordDropped > 0)
}

// flipStep returns the step between the bytes of a file that are tried. It is 1 for the log, and for the other files of
// the unclosed victim read-only and of the closed one for writing; but of the tables only in the first subtest, and for
// the first two: the others are like the second. It is larger for what another shape covers, in large logs and samples.
func (v *victim) flipStep(name string, readOnly bool) int {
	kind := fixture.KindName(name)
	like := slices.DeleteFunc(v.image.Names(), func(other string) bool { return fixture.KindName(other) != kind })
	data := kind == "value table" || kind == "tables"
	switch {
	case len(v.image[name]) > 16<<10:
		return 37
	case race.Sampled():
		return 151
	case *damageShapes:
		return 1
	case v.shape.separate > 0 && (kind != "value table" || !readOnly || v.closed):
		return 23
	case data && (!readOnly || v.closed || slices.Index(like, name) > 1), readOnly == v.closed && name != v.log:
		return 8
	}
	return 1
}

// cutStep returns the step between the lengths of a file that are tried. Of a large file, about a thousand are.
func (v *victim) cutStep(name string) int {
	if race.Sampled() {
		return 1 + len(v.image[name])/20
	}
	return 1 + len(v.image[name])/1000
}

// A damaged filter changes no answer, and Metrics counts its table. Every bit of every filter block and its checksum is
// flipped. Damage to the preferred filter is noticed immediately; damage to a second one is for Check to find.
//
//make:gates
func TestEveryFlippedBitOfAFilterChangesNoAnswer(t *testing.T) {
	race.SkipInShort(t)
	v := newVictim(t, damageDefault)
	flips := 0
	for _, name := range v.tables {
		for fallbacks, policy := range []filter.Policy{filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(10)} {
			at, size := fixture.FilterBlock(t, v.image[name], policy)
			for h := range damage.Flips(v.image, name) {
				if h.Offset < at || h.Offset >= at+size+5 || race.Sampled() && h.Offset%7 != 0 {
					continue
				}
				flips++
				driver := v.driver(true, v.states[:1])
				driver.BeforeClose = func(s damage.Store) {
					m := s.(storeUnderTest).Metrics()
					require.Equal(t, fallbacks, m.Tables.WithFallbackFilter, h.What)
					require.Zero(t, m.Tables.WithDamagedFilter, h.What)
				}
				out := driver.Run(h.Image)
				require.Equal(t, damage.Correct, out.Class, "%s: %s %v", h.What, out.Detail, out.Err)
			}
		}
	}
	t.Logf("%d flips in filter blocks; all answers were right, and each table was counted", flips)
	require.Greater(t, flips, 100)
}

// Two bits anywhere are flipped. The checksum of a short block detects every pair, but two damaged
// places mislead code that relies on one of them.
//
//make:gates
func TestRandomDoubleFlips(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 17))
	victims := slices.Collect(maps.Values(newVictims(t, damageDefault)))
	counts := tallies{}
	doubles := *damageDoubles
	if race.Sampled() {
		doubles /= 10
	}
	for range doubles {
		v := victims[rnd.IntN(len(victims))]
		names := v.image.Names()
		im, what := v.image, ""
		first := ""
		for range 2 {
			name := names[rnd.IntN(len(names))]
			b := bytes.Clone(im[name])
			at, bit := rnd.IntN(len(b)), rnd.IntN(8)
			b[at] ^= 1 << bit
			im = im.With(name, b)
			what += fmt.Sprintf("%s: bit %d of byte %d flipped; ", name, bit, at)
			if first == "" || name == v.log {
				first = name
			}
		}
		out := v.check(t, damage.Harm{What: what, File: first, Image: im}, true, false)
		counts.add("two of all", out.Class)
	}
	counts.log(t, "double flips")
}

// Each file is cut to every length and removed, each of its sectors is replaced in four ways, and every
// two tables or files are swapped.
//
//make:gates
func TestTruncatedStaleSwappedAndMissingFiles(t *testing.T) {
	race.SkipInShort(t)
	shapes := append(shapesToDamage(), damageShape{"files of many sectors", nil, db.NoCompression, 400, 40, 0})
	for _, shape := range shapes {
		for state, v := range newVictims(t, shape) {
			for mode, readOnly := range modes {
				t.Run(shape.name+"/"+state+"/"+mode, func(t *testing.T) {
					t.Parallel()
					v.cutAndSwap(t, readOnly)
				})
			}
		}
	}
}

func (v *victim) cutAndSwap(t *testing.T, readOnly bool) {
	run := func(what string, harms iter.Seq[damage.Harm], asCrash func(damage.Harm) bool) {
		counts := tallies{}
		for h := range harms {
			if what == "cut" && h.Offset%v.cutStep(h.File) != 0 {
				continue
			}
			out := v.check(t, h, readOnly, asCrash(h))
			counts.add(fixture.KindName(h.File), out.Class)
			if v.closed && h.File == v.log && v.vouchedFor(h.Image) {
				require.Equal(t, damage.Refused, out.Class, h.What)
			}
		}
		counts.log(t, what)
	}
	no := func(damage.Harm) bool { return false }
	for _, name := range v.image.Names() {
		run("cut", damage.Cuts(v.image, name), no)
		// A sector of zeros in the log is what a power cut leaves.
		run("stale sectors", damage.Sectors(v.image, v.older, name), func(h damage.Harm) bool {
			return h.File == v.log && bytes.Contains(h.Image[v.log], make([]byte, damage.SectorSize))
		})
	}
	for h := range damage.Missing(v.image) {
		if h.File != v.log {
			v.check(t, h, readOnly, false)
		}
	}
	v.checkMissingLog(t, readOnly)
	run("swapped", damage.Swaps(v.image, v.tables), no)
	run("swapped", damage.Swaps(v.image, v.image.Names()), no)
}

// checkMissingLog opens the database without its log. Like LevelDB, SieveDB opens such a directory without the log's
// records, and its report names the log. It refuses if CLOSED says that there was a log.
func (v *victim) checkMissingLog(t *testing.T, readOnly bool) {
	if v.closed {
		v.check(t, damage.Harm{What: "no log", File: v.log, Image: v.image.With(v.log, nil)}, readOnly, false)
		return
	}
	driver := v.driver(readOnly, v.states[len(v.states)-1:])
	driver.BeforeClose = func(s damage.Store) {
		require.Equal(t, v.log, s.(storeUnderTest).OpenReport().MissingLog)
	}
	out := driver.Run(v.image.With(v.log, nil))
	require.Equal(t, damage.Correct, out.Class, "%s %v", out.Detail, out.Err)
}

// Tables of one size are swapped, so that only their first and last keys distinguish them. No lookup
// of any key may miss the swap, not even one of a key that the filter of the wrong table denies.
func TestSwappedTablesOfEqualSizeAreCorruption(t *testing.T) {
	v := newVictim(t, damageDefault)
	pairs := 0
	for i, a := range v.tables {
		for _, b := range v.tables[:i] {
			if len(v.image[a]) != len(v.image[b]) {
				continue
			}
			pairs++
			mem, err := v.image.With(a, v.image[b]).With(b, v.image[a]).FS("db")
			require.NoError(t, err)
			d, err := db.Open("db", v.shape.options(mem, true))
			require.NoError(t, err, "Open does not open the tables")
			refused := 0
			for _, p := range v.states[0] {
				got, err := d.Get(p.Key)
				if err == nil {
					require.Equal(t, p.Value, got)
					continue
				}
				require.ErrorIs(t, err, db.ErrCorruption)
				require.ErrorContains(t, err, "this is not the table that belongs under this name")
				refused++
			}
			require.Positive(t, refused)
			require.NoError(t, d.Close())
		}
	}
	require.GreaterOrEqual(t, pairs, 3, "the test needs tables of one size")
}

// eachTornTail calls run with the victim's last log cut, with other tails, and with a page of it
// zeroed. It tries about one in step of the cuts and tails, and all pages.
func eachTornTail(v *victim, step int, run func(h damage.Harm)) {
	for h := range damage.Cuts(v.image, v.log) {
		if h.Offset%step == 0 {
			run(h)
		}
	}
	for h := range damage.Tails(v.image, v.log, step) {
		run(h)
	}
	const page = 4 << 10
	for at := 0; at < len(v.image[v.log]); at += page {
		b := bytes.Clone(v.image[v.log])
		clear(b[at:min(at+page, len(b))])
		run(damage.Harm{What: fmt.Sprintf("a page of zeros at %d", at), File: v.log, Image: v.image.With(v.log, b)})
	}
}

// requireTornTailOpens requires that the store opens with exactly the whole records of its last log,
// and reports dropped bytes if and only if that log does not end cleanly.
func requireTornTailOpens(t *testing.T, v *victim, readOnly bool, h damage.Harm) {
	n, _ := v.wholeRecords(h.Image[v.log])
	driver := v.driver(readOnly, v.states[len(v.states)-1-n:len(v.states)-n])
	driver.BeforeClose = func(s damage.Store) {
		for _, r := range s.(storeUnderTest).OpenReport().Logs {
			require.Equal(t, r.Tail == "clean", r.BytesDropped == 0, "%s: %+v", h.What, r)
		}
	}
	out := driver.Run(h.Image)
	require.Equal(t, damage.Correct, out.Class, "%s: %d whole records: %s %v", h.What, n, out.Detail, out.Err)
}

// The last log is cut at every length. The store opens in every mode, with exactly the records that are whole.
//
//make:gates
func TestEveryTornTailOpensWithTheRecordsBeforeIt(t *testing.T) {
	race.SkipInShort(t)
	for _, shape := range []damageShape{damageDefault, {"long", nil, db.NoCompression, 1500, 50, 0}} {
		for mode, readOnly := range modes {
			t.Run(shape.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				v := newVictim(t, shape)
				step := 1
				if shape.logRecords > 10 {
					step = 127
				}
				if race.Sampled() {
					step *= 11
				}
				opened := 0
				eachTornTail(v, step, func(h damage.Harm) {
					requireTornTailOpens(t, v, readOnly, h)
					opened++
				})
				t.Logf("%d torn tails opened, each with the whole records before it", opened)
			})
		}
	}
}

// A refused Open leaves the directory unchanged.
func TestARefusedOpenChangesNothing(t *testing.T) {
	v := newVictim(t, damageDefault)
	refused := 0
	for _, name := range v.image.Names() {
		for h := range damage.Flips(v.image, name) {
			if h.Offset%5 != 0 || race.Sampled() && h.Offset%25 != 0 {
				continue
			}
			mem, err := h.Image.FS("db")
			require.NoError(t, err)
			d, err := db.Open("db", v.shape.options(mem, false))
			if err == nil {
				require.NoError(t, errors.Join(nil, d.Close()))
				continue
			}
			refused++
			require.True(t, errors.Is(err, db.ErrCorruption) || errors.Is(err, fs.ErrNotExist), "%v", err)
			require.Equal(t, h.Image, v.load(t, mem), h.What)
			_, err = mem.Stat(filepath.Join("db", base.LockName))
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
	require.Greater(t, refused, 50)
}
