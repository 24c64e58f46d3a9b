package leveldb

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sievedb/sievedb/db"

	"github.com/syndtr/goleveldb/leveldb/cache"
)

// work adds up what compactions did for each level.
type work struct {
	mu                          sync.Mutex // guards the fields below
	levels                      [db.NumLevels]levelWork
	flushes, fromLevel0, others uint32
}

type levelWork struct {
	read, written int64
	time          time.Duration
}

func (w *work) listener() *db.EventListener {
	return &db.EventListener{
		FlushEnd: func(i db.FlushInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.flushes++
			w.levels[0].written += int64(i.Bytes)
			w.levels[0].time += i.Duration
		},
		CompactionEnd: func(i db.CompactionInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if i.InputLevel == 0 {
				w.fromLevel0++
			} else {
				w.others++
			}
			if i.OutputLevel < 0 || i.OutputLevel >= len(w.levels) {
				return
			}
			l := &w.levels[i.OutputLevel]
			l.read += int64(i.BytesRead)
			l.written += int64(i.BytesWritten)
			l.time += i.Duration
		},
	}
}

// DBStats are the figures of a database. FileCache has no counts but the number of tables, and BlockCache
// none but its nodes and size.
type DBStats struct {
	WriteDelayCount    int32
	WriteDelayDuration time.Duration
	WritePaused        bool

	AliveSnapshots int32
	AliveIterators int32

	IOWrite uint64
	IORead  uint64

	BlockCacheSize    int
	OpenedTablesCount int

	FileCache  cache.Stats
	BlockCache cache.Stats

	LevelSizes        Sizes
	LevelTablesCounts []int
	LevelRead         Sizes
	LevelWrite        Sizes
	LevelDurations    []time.Duration

	MemComp       uint32
	Level0Comp    uint32
	NonLevel0Comp uint32
	SeekComp      uint32 // always 0
}

// Stats fills s, and reuses its slices.
func (db *DB) Stats(s *DBStats) error {
	if err := db.ok(); err != nil {
		return err
	}
	m := db.store.Metrics()
	total := m.Total()
	*s = DBStats{
		WriteDelayCount:    int32(m.Stalls.Count),
		WriteDelayDuration: m.Stalls.Duration,
		WritePaused:        m.Stalls.CurrentReason != "",
		AliveSnapshots:     db.aliveSnaps.Load(),
		AliveIterators:     db.aliveIters.Load(),
		IOWrite:            m.Writes.LogBytes + m.Flushes.Bytes + m.Compactions.BytesWritten,
		IORead:             m.Compactions.BytesRead + m.Tables.OpeningBytes + total.BytesFromDisk,
		BlockCacheSize:     int(m.Cache.Bytes),
		OpenedTablesCount:  m.Tables.Open,
		FileCache:          cache.Stats{Nodes: int64(m.Tables.Open), Size: int64(m.Tables.Open), MissCount: int64(m.Tables.Openings)},
		BlockCache: cache.Stats{Nodes: m.Cache.Blocks, Size: m.Cache.Bytes,
			HitCount: int64(total.BlocksFromCache), MissCount: int64(total.BlocksFromDisk)},
		LevelSizes:        s.LevelSizes[:0],
		LevelTablesCounts: s.LevelTablesCounts[:0],
		LevelRead:         s.LevelRead[:0],
		LevelWrite:        s.LevelWrite[:0],
		LevelDurations:    s.LevelDurations[:0],
	}
	db.work.mu.Lock()
	defer db.work.mu.Unlock()
	s.MemComp, s.Level0Comp, s.NonLevel0Comp = db.work.flushes, db.work.fromLevel0, db.work.others
	for level := range levelsInUse(m, &db.work) {
		l := db.work.levels[level]
		s.LevelSizes = append(s.LevelSizes, int64(m.Levels[level].Bytes))
		s.LevelTablesCounts = append(s.LevelTablesCounts, m.Levels[level].Tables)
		s.LevelRead = append(s.LevelRead, l.read)
		s.LevelWrite = append(s.LevelWrite, l.written)
		s.LevelDurations = append(s.LevelDurations, l.time)
	}
	return nil
}

// levelsInUse returns the number of levels up to the last one that has tables or was written to.
func levelsInUse(m *db.Metrics, w *work) int {
	n := db.NumLevels
	for n > 0 && m.Levels[n-1].Tables == 0 && w.levels[n-1] == (levelWork{}) {
		n--
	}
	return n
}

const propertyPrefix = "leveldb."

// GetProperty returns a property as text. Unknown names are ErrNotFound.
//
//	leveldb.num-files-at-level{n}  the number of tables in level n
//	leveldb.stats                  a table of the levels: tables, sizes, compactions
//	leveldb.compcount              the number of flushes and compactions
//	leveldb.iostats                megabytes read and written
//	leveldb.writedelay             how often and how long writes waited
//	leveldb.sstables               the tables, with their first and last keys
//	leveldb.blockpool              a text without meaning here
//	leveldb.cachedblock            the bytes in the block cache
//	leveldb.openedtables           the number of open tables
//	leveldb.alivesnaps             the number of snapshots that are not released
//	leveldb.aliveiters             the number of iterators that are not released
func (db *DB) GetProperty(name string) (value string, err error) {
	var s DBStats
	if err := db.Stats(&s); err != nil {
		return "", err
	}
	p, ok := strings.CutPrefix(name, propertyPrefix)
	if !ok {
		return "", ErrNotFound
	}
	if level, ok := strings.CutPrefix(p, "num-files-at-level"); ok {
		return s.tablesAt(level)
	}
	switch p {
	case "stats":
		return s.levelTable(), nil
	case "compcount":
		return fmt.Sprintf("MemComp:%d Level0Comp:%d NonLevel0Comp:%d SeekComp:%d", s.MemComp, s.Level0Comp, s.NonLevel0Comp, s.SeekComp), nil
	case "iostats":
		return fmt.Sprintf("Read(MB):%.5f Write(MB):%.5f", megabytes(int64(s.IORead)), megabytes(int64(s.IOWrite))), nil
	case "writedelay":
		return fmt.Sprintf("DelayN:%d Delay:%s Paused:%t", s.WriteDelayCount, s.WriteDelayDuration, s.WritePaused), nil
	case "sstables":
		return db.tableList()
	case "blockpool":
		return "<nil>", nil
	case "cachedblock":
		if blockCache(db.o) < 0 {
			return "<nil>", nil
		}
		return strconv.Itoa(s.BlockCacheSize), nil
	case "openedtables":
		return strconv.Itoa(s.OpenedTablesCount), nil
	case "alivesnaps":
		return strconv.Itoa(int(s.AliveSnapshots)), nil
	case "aliveiters":
		return strconv.Itoa(int(s.AliveIterators)), nil
	}
	return "", ErrNotFound
}

func megabytes(n int64) float64 { return float64(n) / (1 << 20) }

// tablesAt returns the number of tables in a level, which may not exist.
func (s *DBStats) tablesAt(level string) (string, error) {
	n, err := strconv.ParseUint(level, 10, 32)
	if err != nil {
		return "", ErrNotFound
	}
	if n >= uint64(len(s.LevelTablesCounts)) {
		return "0", nil
	}
	return strconv.Itoa(s.LevelTablesCounts[n]), nil
}

const (
	tableHead = "Compactions\n" +
		" Level |   Tables   |    Size(MB)   |    Time(sec)  |    Read(MB)   |   Write(MB)\n"
	tableRule = "-------+------------+---------------+---------------+---------------+---------------\n"
	tableRow  = "| %10d | %13.5f | %13.5f | %13.5f | %13.5f\n"
)

// levelTable returns the property stats, in the format that programs parse.
func (s *DBStats) levelTable() string {
	var b strings.Builder
	b.WriteString(tableHead + tableRule)
	tables := 0
	var spent time.Duration
	for level, n := range s.LevelTablesCounts {
		if n == 0 && s.LevelDurations[level] == 0 {
			continue
		}
		tables += n
		spent += s.LevelDurations[level]
		fmt.Fprintf(&b, " %3d   "+tableRow, level, n, megabytes(s.LevelSizes[level]), s.LevelDurations[level].Seconds(),
			megabytes(s.LevelRead[level]), megabytes(s.LevelWrite[level]))
	}
	fmt.Fprintf(&b, tableRule+" Total "+tableRow, tables, megabytes(s.LevelSizes.Sum()), spent.Seconds(),
		megabytes(s.LevelRead.Sum()), megabytes(s.LevelWrite.Sum()))
	return b.String()
}

// tableList returns the property sstables. The keys are without sequence numbers.
func (d *DB) tableList() (string, error) {
	tables, err := d.store.Tables()
	if err != nil {
		return "", convert(err)
	}
	var b strings.Builder
	level := -1
	for _, t := range tables {
		for level < t.Level {
			level++
			fmt.Fprintf(&b, "--- level %d ---\n", level)
		}
		fmt.Fprintf(&b, "%d:%d[%q .. %q]\n", t.FileNum, t.Bytes, shorten(t.Smallest), shorten(t.Largest))
	}
	return b.String(), nil
}

func shorten(key []byte) string {
	if len(key) <= 8 {
		return string(key)
	}
	return string(key[:3]) + ".." + string(key[len(key)-3:])
}
