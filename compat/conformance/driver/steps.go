package main

import (
	"fmt"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// step makes one random call. Those that would wait for the open transaction are not made.
func (p *program) step() {
	switch n := p.rnd.Intn(100); {
	case n < 25:
		p.write()
	case n < 45:
		p.read("db", p.db)
	case n < 70:
		p.moveIterator()
	case n < 78:
		p.useBatch()
	case n < 86:
		p.useSnapshot()
	case n < 94:
		p.useTransaction()
	case n < 98:
		p.ask()
	default:
		p.restart()
	}
}

func (p *program) waits() bool { return p.tr != nil && !p.trEnded && !p.closed }

func (p *program) write() {
	key, value := p.key(), p.value()
	if p.waits() {
		return
	}
	if p.rnd.Intn(4) == 0 {
		p.say("delete", key, p.db.Delete(key, p.writeOptions()))
		return
	}
	p.say("put", key, value, p.db.Put(key, value, p.writeOptions()))
	for i := range key { // the slices are the caller's again
		key[i] = 0
	}
	for i := range value {
		value[i] = 0
	}
}

// recorder prints the writes of a batch.
type recorder struct {
	p *program
}

func (r recorder) Put(key, value []byte) { r.p.say("replay put", key, value, value == nil) }
func (r recorder) Delete(key []byte)     { r.p.say("replay delete", key) }

func (p *program) useBatch() {
	switch p.rnd.Intn(12) {
	case 0:
		p.batch.Reset()
		p.say("reset", p.batch.Len())
	case 1:
		p.say("replay", p.batch.Replay(recorder{p}))
	case 2:
		dump := append([]byte(nil), p.batch.Dump()...)
		var b leveldb.Batch
		p.say("load", len(dump), b.Load(dump), b.Len())
		p.say("replay of load", b.Replay(recorder{p}))
		if len(dump) > 0 {
			cut := p.rnd.Intn(len(dump))
			p.say("load of a part", b.Load(dump[:cut]), b.Len())
		}
	case 3, 4, 5:
		if p.waits() {
			return
		}
		p.say("write", p.batch.Len(), p.db.Write(&p.batch, p.writeOptions()))
	case 6:
		if !p.waits() {
			p.say("write nothing", p.db.Write(nil, nil), p.db.Write(new(leveldb.Batch), nil))
		}
	case 7:
		p.say("replay into a batch", p.batch.Replay(leveldb.MakeBatch(100)))
	default:
		for range p.rnd.Intn(50) {
			if p.rnd.Intn(4) == 0 {
				p.batch.Delete(p.key())
			} else {
				p.batch.Put(p.key(), p.value())
			}
		}
		p.say("batch", p.batch.Len())
	}
}

func (p *program) moveIterator() {
	if len(p.iters) == 0 {
		return
	}
	n := p.rnd.Intn(len(p.iters))
	it := p.iters[n]
	var what string
	var ok bool
	for range 1 + p.rnd.Intn(8) {
		switch p.rnd.Intn(12) {
		case 0:
			what, ok = "first", it.First()
		case 1:
			what, ok = "last", it.Last()
		case 2, 3:
			key := p.key()
			what, ok = fmt.Sprintf("seek %q", key), it.Seek(key)
		case 4, 5, 6, 7:
			what, ok = "next", it.Next()
		case 8, 9, 10:
			what, ok = "prev", it.Prev()
		case 11:
			if p.rnd.Intn(3) > 0 {
				continue
			}
			it.Release()
			what, ok = "release", false
		}
		p.say("iterator", n, what, ok, it.Valid(), it.Key(), it.Value(), it.Error(), it.Key() == nil, it.Value() == nil)
	}
	if len(p.iters) > 8 {
		p.iters[0].Release()
		p.iters = p.iters[1:]
	}
}

func (p *program) useSnapshot() {
	if len(p.snaps) == 0 || p.rnd.Intn(5) == 0 {
		s, err := p.db.GetSnapshot()
		p.say("snapshot", s == nil, err)
		if err == nil {
			p.snaps = append(p.snaps, s)
		}
		return
	}
	s := p.snaps[p.rnd.Intn(len(p.snaps))]
	if p.rnd.Intn(8) == 0 {
		s.Release()
	}
	p.read("snapshot", s)
}

func (p *program) useTransaction() {
	if p.tr == nil || p.trEnded && p.rnd.Intn(3) > 0 {
		tr, err := p.db.OpenTransaction()
		p.say("transaction", tr == nil, err)
		if err == nil {
			p.tr, p.trEnded = tr, false
		}
		return
	}
	switch p.rnd.Intn(14) {
	case 0:
		p.say("commit", p.tr.Commit())
		p.trEnded = true
	case 1:
		// Later writes get the sequence numbers of the discarded ones, so an iterator of the
		// transaction would show them in goleveldb.
		for _, it := range p.iters {
			it.Release()
		}
		p.tr.Discard()
		p.say("discard")
		p.trEnded = true
	case 2, 3, 4:
		p.read("transaction", p.tr)
	case 5:
		p.say("transaction write", p.tr.Write(&p.batch, nil))
	case 6:
		p.say("transaction write nothing", p.tr.Write(nil, nil))
	case 7, 8:
		key := p.key()
		p.say("transaction delete", key, p.tr.Delete(key, nil))
	default:
		key, value := p.key(), p.value()
		p.say("transaction put", key, p.tr.Put(key, value, &opt.WriteOptions{Sync: true}))
	}
}

// ask makes calls whose answers do not depend on the engine.
func (p *program) ask() {
	switch p.rnd.Intn(6) {
	case 0:
		if !p.waits() {
			p.say("compact", p.db.CompactRange(*util.BytesPrefix(p.key())))
		}
	case 1:
		start, limit := p.key(), p.key()
		if !p.waits() {
			p.say("compact", start, limit, p.db.CompactRange(util.Range{Start: start, Limit: limit}))
		}
	case 2:
		sizes, err := p.db.SizeOf([]util.Range{{}, {Start: []byte("5")}})
		p.say("sizes", sizes, sizes.Sum(), err)
	case 3:
		for _, name := range []string{"leveldb.nothing", "stats", "leveldb.num-files-at-level", "leveldb.num-files-at-levelx", "leveldb.num-files-at-level6x"} {
			value, err := p.db.GetProperty(name)
			p.say("property", name, value, err)
		}
	case 4:
		value, err := p.db.GetProperty("leveldb.num-files-at-level9")
		p.say("property", value, err)
	case 5:
		var s leveldb.DBStats
		err := p.db.Stats(&s)
		p.say("stats", s.WritePaused, s.SeekComp, err)
	}
}

// restart closes the database, often with open handles, and opens it again.
func (p *program) restart() {
	if p.rnd.Intn(3) == 0 {
		p.release()
	}
	switch p.rnd.Intn(6) {
	case 0:
		if !p.waits() {
			p.say("set read-only", p.db.SetReadOnly())
		}
		return
	case 1: // calls on the closed database follow
		p.closeDB()
		return
	}
	p.closeDB()
	p.say("close again", p.db.Close())
	if p.rnd.Intn(3) == 0 {
		p.open(&opt.Options{ErrorIfExist: true})
		p.open(nil) // goleveldb cannot open several logs read-only: it returns io.EOF
		p.closeDB()
		p.open(&opt.Options{ReadOnly: true})
		if p.rnd.Intn(2) == 0 {
			return
		}
		p.closeDB()
	}
	p.open(p.options())
}

func (p *program) closeDB() {
	// An iterator of a closed goleveldb still shows what it has in memory.
	for _, it := range p.iters {
		it.Release()
	}
	p.say("close", p.db.Close())
	p.closed = true
}

func (p *program) release() {
	for _, it := range p.iters {
		it.Release()
	}
	for _, s := range p.snaps {
		s.Release()
	}
	p.iters, p.snaps = nil, nil
}
