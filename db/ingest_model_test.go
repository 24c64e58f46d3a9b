package db

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// ingestModel is a store with a map that has the same content.
type ingestModel struct {
	t       *testing.T
	rnd     *rand.Rand
	o       *Options
	d       *DB
	content map[string]string
	kept    []keptView // of earlier moments
	tables  int
	infos   IngestInfo // sums
}

// keptView is a snapshot or an iterator, or both, with what it must show.
type keptView struct {
	content map[string]string
	s       *Snapshot
	it      *Iterator
}

const ingestModelKeys = 400

func (m *ingestModel) key() string { return string(testKey(m.rnd.IntN(ingestModelKeys))) }

// table makes a table of a random range. Some keys have several entries. It returns what the table
// says about each key; empty values are deletions.
func (m *ingestModel) table() (path string, says map[string]string) {
	says = map[string]string{}
	var entries []madeEntry
	last := m.d.finder.VisibleSeq.Load()
	low := []uint64{0, last / 2, last + 1, last + 1 + m.rnd.Uint64N(1000)}[m.rnd.IntN(4)]
	from := m.rnd.IntN(ingestModelKeys)
	for i := from; i < min(from+1+m.rnd.IntN(60), ingestModelKeys); i += 1 + m.rnd.IntN(3) {
		seq := low + m.rnd.Uint64N(20) + 2
		for n := range 1 + m.rnd.IntN(2) {
			value := ""
			if m.rnd.IntN(4) > 0 {
				value = fmt.Sprintf("table %d %d %d", m.tables, i, n)
			}
			if n == 0 {
				says[string(testKey(i))] = value
			}
			entries = append(entries, madeEntry{string(testKey(i)), seq, value})
			seq--
		}
	}
	m.tables++
	return makeTable(m.t, m.o.FS, fmt.Sprint("in/", m.tables), entries, func(o *sstable.WriterOptions) {
		o.Filter = []filter.Policy{nil, filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(8)}[m.rnd.IntN(3)]
	}), says
}

// note changes the model as entries do.
func (m *ingestModel) note(says map[string]string) {
	maps.Copy(m.content, says)
	maps.DeleteFunc(m.content, func(_, v string) bool { return v == "" })
}

// ingest ingests a few tables. Often a transaction is open meanwhile; it conflicts if it read a key of a
// table.
func (m *ingestModel) ingest() {
	var paths []string
	all := map[string]string{}
	for range 1 + m.rnd.IntN(3) {
		path, says := m.table()
		paths = append(paths, path)
		maps.Copy(all, says)
	}
	tx, read := &Transaction{}, m.key()
	if m.rnd.IntN(3) == 0 {
		tx = m.d.NewTransaction(nil)
		_, err := tx.Has([]byte(read))
		require.NoError(m.t, err)
		require.NoError(m.t, tx.Put([]byte("transaction"), []byte(read)))
	}
	info := mustIngest(m.t, m.d, paths...)
	m.infos.Linked, m.infos.Rewritten = m.infos.Linked+info.Linked, m.infos.Rewritten+info.Rewritten
	m.note(all)
	if tx.db == nil {
		return
	}
	_, hit := all[read]
	if err := tx.Commit(); hit {
		require.Equal(m.t, ErrConflict, err)
	} else {
		require.NoError(m.t, err, "it read another key")
		m.content["transaction"] = read
	}
}

// write makes a few writes.
func (m *ingestModel) write() {
	var b Batch
	says := map[string]string{}
	for range 1 + m.rnd.IntN(20) {
		key, value := m.key(), fmt.Sprint("write ", m.rnd.IntN(1000))
		if m.rnd.IntN(3) == 0 {
			value = ""
			b.Delete([]byte(key))
		} else {
			b.Put([]byte(key), []byte(value))
		}
		says[key] = value
	}
	require.NoError(m.t, m.d.Apply(&b, NoSync))
	m.note(says)
}

// deleteRange deletes a range, so that the ranges of tables become free.
func (m *ingestModel) deleteRange() {
	from, to := m.key(), m.key()
	if from > to {
		from, to = to, from
	}
	require.NoError(m.t, m.d.DeleteRange(background, []byte(from), []byte(to), NoSync))
	maps.DeleteFunc(m.content, func(k, _ string) bool { return k >= from && k < to })
}

func (m *ingestModel) keep() {
	v := keptView{content: maps.Clone(m.content), s: m.d.NewSnapshot()}
	if m.rnd.IntN(2) == 0 { // an iterator does not keep a table from being linked
		it, err := v.s.NewIterator(nil)
		require.NoError(m.t, err)
		require.NoError(m.t, v.s.Close())
		v.s, v.it = nil, it
	}
	m.kept = append(m.kept, v)
}

// compare compares a kept view, and closes it.
func (m *ingestModel) compare() {
	if len(m.kept) == 0 {
		return
	}
	i := m.rnd.IntN(len(m.kept))
	v := m.kept[i]
	m.kept = slices.Delete(m.kept, i, i+1)
	if v.s != nil {
		requireEntries(m.t, v.s.NewIterator, v.content)
		require.NoError(m.t, v.s.Close())
		return
	}
	requireEntries(m.t, func(*IterOptions) (*Iterator, error) { return v.it, nil }, v.content)
}

func (m *ingestModel) step() {
	switch n := m.rnd.IntN(20); {
	case n < 6:
		m.ingest()
	case n < 11:
		m.write()
	case n < 13:
		m.keep()
	case n < 16:
		m.compare()
	case n < 17:
		require.NoError(m.t, m.d.Flush())
	case n < 18:
		require.NoError(m.t, m.d.Compact(background, nil, []byte(m.key())))
	case n < 19:
		m.deleteRange()
	default:
		for len(m.kept) > 0 {
			m.compare()
		}
		require.NoError(m.t, m.d.Close())
		m.d = mustOpen(m.t, m.o)
	}
}

// Random histories of ingests, writes, deleted ranges, compactions and openings, compared with a map,
// also through snapshots and iterators from before.
func TestIngestsAgreeWithAMap(t *testing.T) {
	steps := 1200
	if testing.Short() {
		steps = 400
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		m := &ingestModel{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), o: testOptions(vfs.NewMem()), content: map[string]string{}}
		m.d = mustOpen(t, m.o)
		for n := range steps {
			m.step()
			if n%10 == 0 {
				requireEntries(t, m.d.NewIterator, m.content)
			}
			key := m.key()
			value, err := m.d.Get([]byte(key))
			if want, there := m.content[key]; there {
				require.NoError(t, err)
				require.Equal(t, want, string(value))
			} else {
				require.Equal(t, ErrNotFound, err)
			}
		}
		require.Positive(t, m.infos.Linked)
		require.Positive(t, m.infos.Rewritten)
		t.Logf("%d tables linked, %d rewritten", m.infos.Linked, m.infos.Rewritten)
		for len(m.kept) > 0 {
			m.compare()
		}
		require.Zero(t, filesOf(t, m.o.FS, base.FileTemp))
		report, err := m.d.Check(background)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		require.NoError(t, m.d.Close())
	})
}
