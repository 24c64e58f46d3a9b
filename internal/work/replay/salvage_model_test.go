package replay_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// modelLog is a log with its records.
type modelLog struct {
	name    string
	data    []byte // as it was written
	records []modelRecord
}

type modelRecord struct {
	from, to int // bytes of the log
	apply    func(fixture.Contents)
}

// randomLog makes a log whose first operation has the number seq, and returns the number after its
// last one. Records have all sizes up to several blocks.
func randomLog(t *testing.T, rnd *rand.Rand, num, seq uint64) (*modelLog, uint64) {
	l := &modelLog{name: base.FileName(base.FileLog, num)}
	var batches [][]byte
	var applies []func(fixture.Contents)
	for range rnd.IntN(40) {
		var b batch.Batch
		var ops []func(fixture.Contents)
		for i := range 1 + rnd.IntN(3) {
			key := fixture.Key(rnd.IntN(30))
			if rnd.IntN(4) == 0 {
				b.Add(base.KindDelete, key, nil)
				ops = append(ops, func(c fixture.Contents) { delete(c, string(key)) })
				continue
			}
			sizes := []int{0, 20, 300, 5000, 70_000}
			value := fmt.Sprintf("%d.%d.", seq, i) + strings.Repeat(string(rune('a'+rnd.IntN(26))), rnd.IntN(1+sizes[rnd.IntN(len(sizes))]))
			b.Add(base.KindSet, key, []byte(value))
			ops = append(ops, func(c fixture.Contents) { c[string(key)] = value })
		}
		batches = append(batches, bytes.Clone(b.Record(seq)))
		seq += uint64(len(ops))
		applies = append(applies, func(c fixture.Contents) {
			for _, op := range ops {
				op(c)
			}
		})
	}
	l.data = fixture.Log(t, batches...)
	r := wal.NewReader(bytes.NewReader(l.data), int64(len(l.data)), wal.ReaderOptions{})
	for i, apply := range applies {
		require.NoError(t, result.Err(r.Next()))
		if i > 0 {
			l.records[i-1].to = int(r.Offset())
		}
		l.records = append(l.records, modelRecord{int(r.Offset()), len(l.data), apply})
	}
	_, err := r.Next()
	require.Equal(t, io.EOF, err)
	return l, seq
}

// damageBytes returns a copy of the bytes with random damage.
func damageBytes(rnd *rand.Rand, data []byte) []byte {
	b := bytes.Clone(data)
	for range rnd.IntN(4) {
		if len(b) == 0 {
			break
		}
		at := rnd.IntN(len(b))
		switch rnd.IntN(6) {
		case 0, 1:
			b[at] ^= 1 << rnd.IntN(8)
		case 2:
			clear(b[at:min(len(b), at+rnd.IntN(3000))])
		case 3:
			for i := range b[at:min(len(b), at+rnd.IntN(3000))] {
				b[at+i] = byte(rnd.UintN(256))
			}
		case 4:
			b = b[:at]
		case 5:
			b = append(b, make([]byte, rnd.IntN(40_000))...)
		}
	}
	return b
}

// survives reports whether no byte of the record has changed.
func (l *modelLog) survives(r modelRecord, now []byte) bool {
	return r.to <= len(now) && bytes.Equal(l.data[r.from:r.to], now[r.from:r.to])
}

// wantSalvaged returns the contents that a salvage must find, given the tail that it reported for each log.
func wantSalvaged(t testing.TB, mode db.Salvage, logs []*modelLog, now fixture.Dir, reports []report.LogReport) fixture.Contents {
	t.Helper()
	c := fixture.Contents{}
	ended := false
	byName := map[string]report.LogReport{}
	for _, r := range reports {
		byName[r.Name] = r
	}
	for _, l := range logs {
		b := now[l.name]
		rep := byName[l.name]
		records := uint64(0)
		end := len(b)
		if rep.Tail == "torn" || rep.Tail == "hole" { // the zeros that end a log are not among the bytes dropped
			end = len(bytes.TrimRight(b, "\x00")) - int(rep.BytesDropped)
		}
		for _, r := range l.records {
			alive := l.survives(r, b)
			if !alive && mode == db.SalvagePrefix && rep.Tail == "damaged" {
				ended = true
			}
			if rep.Tail == "torn" {
				require.False(t, alive && r.from >= end, "an intact record after a torn end")
			}
			if alive && !ended && r.from < end {
				r.apply(c)
				records++
			}
		}
		ended = ended || mode == db.SalvagePrefix && rep.Tail == "damaged"
		require.Equal(t, records, rep.Records, "%s %+v", l.name, rep)
	}
	return c
}

// Logs with random damage are opened with each kind of Salvage. The contents are exactly those of the records that the
// report does not give up, also read-only, after a failure in the middle, and at each later open.
//
//make:portable
func TestSalvageOfRandomDamageIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 4))
	for range 15 {
		logs, whole := randomLogs(t, rnd)
		for range 3 {
			now := whole.Clone()
			for _, l := range logs {
				if rnd.IntN(2) == 0 {
					now[l.name] = damageBytes(rnd, l.data)
				}
			}
			for _, mode := range []db.Salvage{db.SalvageNothing, db.SalvagePrefix, db.SalvageAll} {
				requireExactSalvage(t, rnd, mode, logs, now)
			}
			all := fixture.Contents{}
			for _, l := range logs {
				for _, r := range l.records {
					if l.survives(r, now[l.name]) {
						r.apply(all)
					}
				}
			}
			got, rep, _ := storetest.Repaired(t, now)
			require.Equal(t, all, got, "%s", rep)
		}
	}
}

// randomLogs makes a database that has only one to three logs.
func randomLogs(t *testing.T, rnd *rand.Rand) (logs []*modelLog, whole fixture.Dir) {
	whole = fixture.Dir{}
	seq := uint64(1)
	for i := range 1 + rnd.Uint64N(3) {
		var l *modelLog
		l, seq = randomLog(t, rnd, 3+i, seq)
		logs = append(logs, l)
		whole[l.name] = l.data
	}
	whole.AddManifest(t, 2, &manifest.Edit{
		LogNum: manifest.Num(3), PrevLogNum: manifest.Num(0), NextFileNum: manifest.Num(10), LastSeq: manifest.Num(0),
	})
	return logs, whole
}

func requireExactSalvage(t *testing.T, rnd *rand.Rand, mode db.Salvage, logs []*modelLog, now fixture.Dir) {
	t.Helper()
	o := storetest.Options(now.FS(t))
	o.Salvage, o.ReadOnly = mode, true
	d, err := db.Open("db", o)
	if mode == db.SalvageNothing && err != nil {
		require.ErrorIs(t, err, db.ErrCorruption)
		return
	}
	require.NoError(t, err)
	want := wantSalvaged(t, mode, logs, now, d.OpenReport().Logs)
	require.Equal(t, want, storetest.Contents(t, d))
	require.NoError(t, d.Close())

	o.ReadOnly = false
	mem := now.FS(t)
	if rnd.IntN(2) == 0 {
		mem = interrupted(rnd, o, mem)
	}
	o.FS = mem
	d = result.Of(db.Open("db", o))(t)
	require.Equal(t, want, storetest.Contents(t, d))
	require.NoError(t, d.Put([]byte("after"), nil, db.Sync))
	want["after"] = ""
	crashed := storetest.Options(mem.Crash())
	require.NoError(t, d.Close())
	for _, crashed.ReadOnly = range []bool{true, false} {
		d := storetest.MustOpen(t, crashed)
		require.Equal(t, want, storetest.Contents(t, d))
		require.NoError(t, d.Close())
	}
}

// interrupted opens the database on a disk that fails from a random operation on, and returns the
// disk after a crash of the process or of the machine.
func interrupted(rnd *rand.Rand, o *db.Options, mem *vfs.Mem) *vfs.Mem {
	o.FS = wrap.NewFaulty(mem, wrap.FailFrom(rnd.Uint64N(60), nil))
	if d, err := db.Open("db", o); err == nil {
		_ = d.Close()
	}
	if rnd.IntN(2) == 0 {
		return mem.Kill()
	}
	return mem.Crash()
}
