package sstable

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sort"
	"strings"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/stretchr/testify/require"
)

var (
	malformedTables = flag.Int("malformed.tables", 10_000, "how many malformed tables to read")
	malformedSeed   = flag.Uint64("malformed.seed", 0, "the seed of the malformed tables; 0 draws one")
)

// malformedSources are the sound tables from which malformed ones are made.
func malformedSources(t testing.TB) map[string]entries {
	return map[string]entries{
		"tricky": trickyEntries(rand.New(rand.NewPCG(1, 1)), base.Bytewise, 60),
		"plain":  plainEntries(40, 30),
		"small":  func() entries { es, _ := smallTable(t); return es }(),
	}
}

// tableReport is the result of reading one table.
type tableReport struct {
	refusedAtOpen, refused, changed bool
	newProperties                   bool // another number of entries
	refusals                        int  // of the index
	panicked                        string
	problems                        []string
}

// enoughRefusals is the number of refusals of the index after which no more keys are looked up. Each lookup reads and
// decodes all of a refused index again, for the same error: what a hundred of them allocate says nothing about one.
const enoughRefusals = 10

func (r *tableReport) check(err error) {
	if err == nil {
		return
	}
	r.refused = true
	if c, ok := err.(*base.CorruptionError); ok && c.Part == indexPart {
		r.refusals++
	}
	if p := explainsItself(err); p != "" {
		r.problems = append(r.problems, p)
	}
}

// explainsItself returns what err lacks, or "". Every error of a damaged table must have
// file, part, offset, what was expected and what was found.
func explainsItself(err error) string {
	if n, ok := err.(*base.NewerError); ok && n.File == "000009.ldb" && n.Part != "" && n.Offset >= 0 {
		return ""
	}
	c, ok := err.(*base.CorruptionError)
	switch {
	case !ok:
		return fmt.Sprintf("not a CorruptionError: %v", err)
	case c.File != "000009.ldb" || c.Part == "" || c.Offset < 0:
		return fmt.Sprintf("without file, part or offset: %v", err)
	case !strings.Contains(c.Detail, "want") && c.Detail != wrongAlone:
		return fmt.Sprintf("without what was wanted: %v", err)
	}
	return ""
}

// readMalformed uses a table in every way that the store does, and in others.
func readMalformed(data []byte, es entries) (rep tableReport) {
	defer func() {
		if p := recover(); p != nil {
			rep.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	f := &memFile{data: data}
	r, err := Open(f, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache(), Name: "000009.ldb"})
	if err != nil {
		rep.refusedAtOpen = true
		rep.check(err)
		if f.closed != 1 {
			rep.problems = append(rep.problems, "Open failed and left the file open")
		}
		return rep
	}
	defer r.Close()
	for i := 0; i < len(es) && rep.refusals < enoughRefusals; i += 1 + len(es)/20 {
		for _, user := range [][]byte{base.UserKey(es[i].Key), append(bytes.Clone(base.UserKey(es[i].Key)), '!')} {
			for _, seq := range []uint64{base.MaxSeq, 4} {
				res, err := get(r, string(user), seq)
				rep.check(err)
				value, trailer, ok := modelGet(base.Bytewise, es, user, seq)
				rep.changed = rep.changed || err == nil && (ok != res.Found || trailer != res.Trailer || !bytes.Equal(value, res.Value))
			}
		}
		_, err := r.ApproximateOffset(es[i].Key)
		rep.check(err)
	}
	p, ok := r.Properties()
	rep.newProperties = ok && p.Entries != uint64(len(es))
	for _, o := range []IterOptions{{}, {NoFillCache: true, ReadAhead: 300}, {KeysOnly: true}} {
		it, err := r.NewIter(o)
		if err != nil {
			rep.check(err)
			continue
		}
		rep.walk(it, es, len(data))
		rep.check(it.Close())
	}
	return rep
}

// walk moves an iterator in every way. The number of its steps is bounded: an entry has at
// least three bytes, in blocks that are at most 22 times as large decompressed.
func (r *tableReport) walk(it *Iter, es entries, size int) {
	most := 22 * size
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n < len(es) && (!bytes.Equal(it.Key(), es[n].Key) || !it.opts.KeysOnly && !bytes.Equal(it.Value(), es[n].Value)) {
			r.changed = true
		}
		if n++; n > most {
			r.problems = append(r.problems, "Next without end")
			return
		}
	}
	r.changed = r.changed || n > len(es) || it.Err() == nil && n != len(es)
	if it.Err() != nil && it.First() {
		r.problems = append(r.problems, "an error does not stick")
	}
	n = 0
	for ok := it.Last(); ok; ok = it.Prev() {
		if n++; n > most {
			r.problems = append(r.problems, "Prev without end")
			return
		}
	}
	for i := 0; i < len(es); i += 5 {
		if it.SeekGE(es[i].Key) && it.Next() {
			it.Prev()
		}
		if it.SeekLT(es[i].Key) && it.Prev() {
			it.Next()
		}
	}
}

// Tables with correct checksums and wrong contents: each number and each byte string of the format is changed, and the
// checksums are recomputed. No table may cause a panic, an endless loop, or allocations that the file's size does not
// justify. Every error must have file, part, offset, what was expected and what was found.
//
// The probability of a false alarm is negligible: the rarest of the four outcomes is that of
// one in 30 tables (296 of 10,000); of 1,000 tables none has it once in 10^12 runs.
func TestMalformedTablesWithGoodChecksums(t *testing.T) {
	if testing.Short() {
		*malformedTables = min(*malformedTables, 2500)
	}
	seed := *malformedSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 21))
	type source struct {
		name  string
		es    entries
		forge *damage.Forge
		sites int
	}
	var sources []source
	for name, es := range malformedSources(t) {
		for _, c := range []Compression{NoCompression, Snappy} {
			data := buildTable(t, WriterOptions{Filter: bloom, BlockSize: 200, BlockRestartInterval: 4, Compression: c}, es)
			forge, err := damage.NewForge(data)
			require.NoError(t, err)
			require.Equal(t, data, forge.Sound(), "the forge must know the format")
			rep := readMalformed(data, es)
			require.Equal(t, tableReport{}, rep, "a sound table is read as such")
			sources = append(sources, source{name, es, forge, forge.Sites()})
		}
	}
	sort.SliceStable(sources, func(i, j int) bool { return sources[i].name < sources[j].name }) // for the seed

	counts := map[string]int{}
	parts := map[string]int{}
	var largest uint64
	for i := range *malformedTables {
		s := sources[i%len(sources)]
		data, changed := s.forge.Build(rnd, s.sites)
		for _, what := range changed {
			part, _, _ := strings.Cut(what, ":")
			parts[part]++
		}
		stop := damage.Watch(fmt.Sprintf("table %d of seed %d, %s: %q", i, seed, s.name, changed))
		before := damage.Allocated()
		rep := readMalformed(data, s.es)
		allocated := damage.Allocated() - before
		stop()
		largest = max(largest, allocated)
		require.Empty(t, rep.panicked, "table %d, %s: %q", i, s.name, changed)
		require.Empty(t, rep.problems, "table %d, %s: %q", i, s.name, changed)
		require.LessOrEqual(t, allocated, damage.MemoryBound(len(data)), "table %d, %s: %q", i, s.name, changed)
		switch {
		case rep.refusedAtOpen:
			counts["rejected by Open"]++
		case rep.refused:
			counts["rejected by a read"]++
		case rep.changed:
			counts["read with other contents"]++
		default:
			counts["harmless"]++
		}
	}
	t.Logf("%d malformed tables, 0 panics, at most %d KiB allocated for one: %v", *malformedTables, largest>>10, counts)
	t.Logf("changed sites by part: %v", parts)
	if *malformedTables >= 1000 {
		require.Len(t, counts, 4, "every outcome occurs")
	}
}
