package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"os"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// program is a random program: a database with iterators, snapshots, a batch and a transaction. Calls
// on handles that were released or closed are part of it.
type program struct {
	out   *bufio.Writer
	rnd   *rand.Rand
	dir   string
	where string

	stor    storage.Storage // not of where "file"
	db      *leveldb.DB
	closed  bool
	iters   []iterator.Iterator
	snaps   []*leveldb.Snapshot
	batch   leveldb.Batch
	tr      *leveldb.Transaction
	trEnded bool
	n       int
}

func (p *program) run(steps int) error {
	switch p.where {
	case "mem":
		p.stor = storage.NewMemStorage()
	case "custom":
		p.stor = newCustomStorage()
	}
	p.open(nil)
	for p.n = range steps {
		p.step()
	}
	p.release()
	p.say("close", p.db.Close())
	if p.stor != nil {
		p.say("close storage", p.stor.Close())
	}
	return nil
}

// say prints a line; errors by the sentinels with which programs compare them.
func (p *program) say(what string, values ...any) {
	fmt.Fprintf(p.out, "%d %s", p.n, what)
	for _, v := range values {
		switch v := v.(type) {
		case error:
			fmt.Fprintf(p.out, " %s", errorName(v))
		case []byte:
			fmt.Fprintf(p.out, " %s", text(v))
		default:
			fmt.Fprintf(p.out, " %v", v)
		}
	}
	fmt.Fprintln(p.out)
}

// text shortens long slices.
func text(b []byte) string {
	if len(b) > 24 {
		return fmt.Sprintf("%q... (%d bytes, %#x)", b[:16], len(b), util.NewCRC(b).Value())
	}
	return fmt.Sprintf("%q", b)
}

func errorName(err error) string {
	named := map[error]string{
		leveldb.ErrNotFound: "ErrNotFound", leveldb.ErrClosed: "ErrClosed", leveldb.ErrReadOnly: "ErrReadOnly",
		leveldb.ErrSnapshotReleased: "ErrSnapshotReleased", leveldb.ErrIterReleased: "ErrIterReleased",
		storage.ErrLocked: "storage.ErrLocked", storage.ErrClosed: "storage.ErrClosed", os.ErrExist: "os.ErrExist",
		os.ErrNotExist: "os.ErrNotExist", iterator.ErrIterReleased: "iterator.ErrIterReleased", io.EOF: "EOF",
	}
	if name, ok := named[err]; ok {
		return name
	}
	if errors.IsCorrupted(err) {
		return "corrupted"
	}
	return err.Error()
}

func (p *program) options() *opt.Options {
	if p.rnd.Intn(3) == 0 {
		return nil
	}
	o := &opt.Options{
		WriteBuffer: 1 << (12 + p.rnd.Intn(8)), BlockSize: 64 << p.rnd.Intn(6), CompactionTableSize: 4096 << p.rnd.Intn(6),
		BlockCacheCapacity: []int{-1, 0, 1000, 1 << 20}[p.rnd.Intn(4)], OpenFilesCacheCapacity: []int{-1, 0, 10}[p.rnd.Intn(3)],
		DisableLargeBatchTransaction: p.rnd.Intn(2) == 0, NoSync: p.rnd.Intn(2) == 0, NoWriteMerge: p.rnd.Intn(2) == 0,
		Strict: []opt.Strict{0, opt.StrictAll, opt.NoStrict}[p.rnd.Intn(3)],
	}
	if p.rnd.Intn(2) == 0 {
		o.Filter = filter.NewBloomFilter(1 + p.rnd.Intn(20))
	}
	if p.rnd.Intn(3) == 0 {
		o.Compression = opt.NoCompression
	}
	return o
}

func (p *program) open(o *opt.Options) {
	var err error
	var opened *leveldb.DB
	if p.stor != nil {
		opened, err = leveldb.Open(p.stor, o)
	} else {
		opened, err = leveldb.OpenFile(p.dir, o)
	}
	p.say("open", err)
	if err == nil {
		p.db, p.closed = opened, false
	}
}

func (p *program) key() []byte {
	k := []byte(fmt.Sprintf("%03d", p.rnd.Intn(300)))
	switch p.rnd.Intn(20) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return append(k, 0xff, byte(p.rnd.Intn(256)))
	case 3:
		return k[:1+p.rnd.Intn(2)]
	}
	return k
}

func (p *program) value() []byte {
	switch p.rnd.Intn(10) {
	case 0:
		return nil
	case 1:
		b := make([]byte, p.rnd.Intn(20000))
		p.rnd.Read(b)
		return b
	}
	return fmt.Appendf(nil, "value %d", p.rnd.Intn(1_000_000))
}

func (p *program) writeOptions() *opt.WriteOptions {
	return []*opt.WriteOptions{nil, {}, {NoWriteMerge: true}}[p.rnd.Intn(3)]
}

func (p *program) readOptions() *opt.ReadOptions {
	return []*opt.ReadOptions{nil, {}, {DontFillCache: true}, {Strict: opt.StrictAll}}[p.rnd.Intn(4)]
}

func (p *program) slice() *util.Range {
	switch p.rnd.Intn(5) {
	case 0:
		return util.BytesPrefix(p.key())
	case 1:
		r := &util.Range{Start: p.key(), Limit: p.key()}
		if string(r.Start) > string(r.Limit) { // goleveldb's iterators panic
			r.Start, r.Limit = r.Limit, r.Start
		}
		return r
	case 2:
		return &util.Range{Limit: p.key()}
	case 3:
		return &util.Range{}
	}
	return nil
}

// reader is what a DB, a snapshot and a transaction have in common.
type reader interface {
	leveldb.Reader
	Has(key []byte, ro *opt.ReadOptions) (bool, error)
}

func (p *program) read(what string, r reader) {
	key := p.key()
	switch p.rnd.Intn(4) {
	case 0:
		has, err := r.Has(key, p.readOptions())
		p.say(what+" has", key, has, err)
	case 1:
		p.iters = append(p.iters, r.NewIterator(p.slice(), p.readOptions()))
		p.say(what+" iterator", len(p.iters))
	default:
		value, err := r.Get(key, p.readOptions())
		// An empty value is nil in goleveldb since 2022, and was an empty slice before and is one here.
		p.say(what+" get", key, value, err, value == nil && err != nil)
		for i := range value { // the slice is the caller's
			value[i] = 'x'
		}
	}
}
