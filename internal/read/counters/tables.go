package counters

import (
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// FillTables fills in the figures of the tables of v, which c opens, of the levels, and of the cache of blocks.
func FillTables(m *report.Metrics, v *version.Version, c *tables.Cache) {
	var needed neededMemory
	v.Files(func(level int, f *version.FileMeta) {
		m.Levels[level].Tables++
		m.Levels[level].Bytes += f.Size
		r := tables.Of(f).Peek()
		if needed.add(f, r); r != nil {
			m.Tables.Open++
			m.Tables.FilterBytes += r.FilterSize()
			m.Tables.RangeFilterBytes += r.RangeFilterSize()
			m.Tables.IndexBytes += r.IndexSize()
			status := r.FilterStatus()
			if name := r.FilterPolicy(); name != "" {
				if m.Tables.FilterPolicies == nil {
					m.Tables.FilterPolicies = make(map[string]int)
				}
				m.Tables.FilterPolicies[name]++
				if status.Err != nil {
					m.Tables.WithFallbackFilter++
				}
			}
			switch status.State {
			case sstable.FilterMissing:
				m.Tables.WithoutFilter++
			case sstable.FilterUnknown:
				m.Tables.WithUnknownFilter++
				if m.Tables.UnknownFilters == nil {
					m.Tables.UnknownFilters = make(map[string]int)
				}
				m.Tables.UnknownFilters[status.Policy]++
			case sstable.FilterDamaged:
				m.Tables.WithDamagedFilter++
			}
		}
	})
	var neededValues neededMemory // they have no filters and few keys
	for _, t := range v.ValueFiles() {
		r := tables.Of(t.File).Peek()
		if neededValues.add(t.File, r); r != nil {
			m.Tables.Open++
			m.Tables.IndexBytes += r.IndexSize()
		}
	}
	m.Tables.MemoryNeeded = needed.bytes() + neededValues.bytes()
	m.Tables.ValueTables = v.ValueTableCount()
	m.Tables.ValueBytes, m.Tables.ValueGarbage = v.ValueBytes()
	m.Tables.Openings, m.Tables.OpeningReads, m.Tables.OpeningBytes = c.Openings()
	m.Tables.Prefetches, m.Tables.PrefetchedBytes = c.Prefetched()
	used, blocks := c.Memory(), c.Blocks().Metrics()
	m.Tables.MemoryBytes, m.Tables.MemoryLimit, m.Tables.ClosedForMemory = used.Bytes, used.Limit, used.Closed
	m.Cache.Capacity, m.Cache.Bytes, m.Cache.Blocks = blocks.Capacity, blocks.Size, blocks.Count
	m.Cache.CompressedBlocks, m.Cache.CompressedBytes = blocks.Compressed, blocks.CompressedBytes
	m.Cache.TableBytes = blocks.Charged
}

// neededMemory estimates what tables would use if all were open.
type neededMemory struct {
	all   uint64 // bytes of all tables
	whole uint64 // bytes of those that are open with their index
	used  uint64 // memory of these
}

func (n *neededMemory) add(f *version.FileMeta, r *sstable.Reader) {
	n.all += f.Size
	if r != nil && r.HasIndex() {
		n.whole += f.Size
		n.used += r.FilterSize() + r.RangeFilterSize() + r.IndexSize()
	}
}

func (n *neededMemory) bytes() int64 {
	if n.whole == 0 {
		return 0
	}
	return int64(float64(n.all) / float64(n.whole) * float64(n.used))
}
