package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// small options make several tables out of a few thousand entries. LevelDB
// raises the buffer to 64 KiB and tables to 1 MiB.
var small = Options{
	BloomBits: 10, WriteBufferSize: 64 << 10, BlockSize: 1 << 10, TableSize: 32 << 10, LevelBase: 64 << 10,
}

// tiny options make several levels out of a hundred kilobytes.
func tiny(reuseLogs bool) Options {
	return Options{BloomBits: 10, WriteBufferSize: 32 << 10, TableSize: 16 << 10, LevelBase: 64 << 10, ReuseLogs: reuseLogs}
}

func with(o Options, change func(*Options)) Options {
	change(&o)
	return o
}

// shapes are the databases that every engine writes and every other one reads.
var shapes = []struct {
	name string
	opts Options
	fill func(*session)
	// killed leaves the database without closing it.
	killed bool
}{
	{name: "an empty database", opts: small, fill: func(*session) {}},
	{name: "an empty database that was killed", opts: small, fill: func(*session) {}, killed: true},
	{name: "one key in the log", opts: small, fill: func(s *session) { s.put("k", "v") }},
	{name: "one key in a table", opts: small, fill: func(s *session) { s.put("k", "v"); s.flush() }},
	{name: "the empty key and the empty value", opts: small, fill: fillEmpty},
	{name: "keys of 0x00 and 0xff", opts: small, fill: fillExtremeBytes},
	{name: "keys of up to 64 KiB", opts: small, fill: fillLongKeys},
	{name: "values of up to 8 MiB", opts: Options{BloomBits: 10}, fill: fillLargeValues},
	{name: "many overwrites and deletions", opts: small, fill: fillOverwrites},
	{name: "everything deleted", opts: small, fill: fillDeleted},
	{name: "snapshots held while writing", opts: small, fill: fillSnapshots},
	{name: "several levels with a filter", opts: small, fill: fillLevels},
	{name: "several levels without a filter", opts: with(small, func(o *Options) { o.BloomBits = 0 }), fill: fillLevels},
	{name: "filters of ranges", opts: with(small, func(o *Options) { o.RangeFilters = true }), fill: fillLog},
	{name: "several levels, uncompressed", opts: with(small, func(o *Options) { o.Compression = None }), fill: fillLevels},
	{name: "default sizes", opts: Options{BloomBits: 10}, fill: fillLevels},
	{name: "all data in the log of a killed process", opts: Options{}, fill: fillLog, killed: true},
	{name: "tables and log of a killed process", opts: small, fill: fillLevels, killed: true},
	{name: "log records that span many blocks", opts: Options{BloomBits: 10}, fill: fillLongRecords, killed: true},
	{name: "a batch of 50,000 entries in the log", opts: Options{WriteBufferSize: 16 << 20}, fill: fillLargeBatch, killed: true},
	{name: "a batch of 50,000 entries in tables", opts: small, fill: fillLargeBatch},
}

func TestExchange(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			forEachDirection(t, func(t *testing.T, writer, reader Engine) {
				s := newSession(t, writer, shape.opts)
				shape.fill(s)
				s.verify()
				if shape.killed {
					s.kill()
				} else {
					s.close()
				}
				s.exchange(writer, reader)
			})
		})
	}
}

func fillEmpty(s *session) {
	s.put("", "the empty key's value")
	s.put("empty value", "")
	s.flush()
	s.put("", "")
	s.put("z", "")
}

func fillExtremeBytes(s *session) {
	for n := 1; n <= 40; n++ {
		for _, b := range []byte{0, 0xff, 0x7f, 0x80} {
			key := bytes.Repeat([]byte{b}, n)
			s.write(Put(key, key))
			s.write(Put(append(key, 1), []byte{b}))
		}
		if n%10 == 0 {
			s.flush()
		}
	}
}

func fillLongKeys(s *session) {
	for i, n := range []int{1 << 10, 1 << 12, 32<<10 - 8, 32 << 10, 64<<10 - 1, 64 << 10} {
		for j := range 4 {
			key := bytes.Repeat([]byte{byte('a' + i)}, n) // long shared prefixes
			key[n-1] = byte(j)
			s.write(Put(key, []byte("v")))
			s.write(Put(s.bytes(n), s.bytes(10)))
		}
		s.flush()
	}
}

func fillLargeValues(s *session) {
	for i, n := range []int{1 << 16, 1 << 20, 5<<20 + 1, 8 << 20} {
		s.write(Put(fmt.Appendf(nil, "random%d", i), s.bytes(n)))
		s.write(Put(fmt.Appendf(nil, "zeros%d", i), make([]byte, n)))
	}
	s.put("after", "small")
}

func fillOverwrites(s *session) {
	for range 8000 {
		key := fmt.Sprintf("key%03d", s.rng.IntN(300))
		if s.rng.IntN(3) == 0 {
			s.delete(key)
		} else {
			s.write(Put([]byte(key), s.bytes(50)))
		}
	}
}

func fillDeleted(s *session) {
	fillOverwrites(s)
	for _, key := range s.model.Keys() {
		s.delete(key)
	}
}

// fillSnapshots checks each snapshot after much has been written over it, which
// leaves several versions of a key in the tables.
func fillSnapshots(s *session) {
	type held struct {
		snapshot Snapshot
		model    *Model
	}
	var snapshots []held
	for round := range 5 {
		for i := range 400 {
			key := fmt.Sprintf("key%04d", i*(round+1)%1000)
			if i%7 == round {
				s.delete(key)
			} else {
				s.write(Put([]byte(key), s.bytes(100)))
			}
		}
		snapshot, err := s.db.Snapshot()
		require.NoError(s.t, err)
		snapshots = append(snapshots, held{snapshot, s.model.Clone()})
		if round%2 == 0 {
			s.flush()
		}
	}
	s.compact()
	for i, h := range snapshots {
		require.NoError(s.t, h.model.Check(h.snapshot), "%s reads snapshot %d", s.engine.Name(), i)
		require.NoError(s.t, h.snapshot.Release())
	}
}

func fillLevels(s *session) {
	for i := range 6000 {
		key := binary.BigEndian.AppendUint32(nil, s.rng.Uint32()%20000)
		if i%10 == 9 {
			s.delete(string(key))
		} else {
			s.write(Put(key, s.bytes(60)))
		}
	}
}

// fillLog stays below every engine's smallest default buffer. Its keys have the form that the filters of ranges know.
func fillLog(s *session) {
	for i := range 2000 {
		s.write(Put(fmt.Appendf(nil, "key%05d", i*7919%4000), s.bytes(i%200)), Delete(fmt.Appendf(nil, "key%05d", i)))
	}
}

// fillLongRecords puts first, middle and last chunks at every place of a block.
func fillLongRecords(s *session) {
	for i := range 40 {
		s.write(Put(fmt.Appendf(nil, "key%d", i), s.bytes(30_000+i*331)))
	}
	s.write(Put([]byte("many blocks"), s.bytes(1<<20)))
	s.put("last", "small")
}

func fillLargeBatch(s *session) {
	ops := make([]Op, 50_000)
	for i := range ops {
		ops[i] = Put(fmt.Appendf(nil, "key%06d", i*7919%60_000), fmt.Appendf(nil, "value %d", i))
		if i%11 == 10 {
			ops[i] = Delete(ops[i-1].Key)
		}
	}
	s.write(ops...)
}
