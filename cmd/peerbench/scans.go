package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

func readSeq(s *session) task     { return s.walk(engine.IterOptions{}) }
func readReverse(s *session) task { return s.walk(engine.IterOptions{Reverse: true}) }
func readKeys(s *session) task    { return s.walk(engine.IterOptions{KeysOnly: true}) }

// walk reads entries in order, and starts again after the last one.
func (s *session) walk(how engine.IterOptions) task {
	return task{want: everything, begin: func(th *thread) (func(int) (int, error), func() error, error) {
		it, err := s.engine.NewIterator(how)
		if err != nil {
			return nil, nil, err
		}
		start, move := engine.Iterator.First, engine.Iterator.Next
		if how.Reverse {
			start, move = engine.Iterator.Last, engine.Iterator.Prev
		}
		do := func(i int) (int, error) {
			ok := false
			if i%s.cfg.Num == 0 {
				th.key = th.key[:0]
				ok = start(it)
			} else {
				ok = move(it)
			}
			if !ok {
				return 1, nil // th.found will be too low
			}
			return 1, s.visit(th, it, how)
		}
		return do, it.Close, nil
	}}
}

// oneByte is for visits without values.
var oneByte = []byte{0}

// visit counts the iterator's entry, and checks that its key is in order.
func (s *session) visit(th *thread, it engine.Iterator, how engine.IterOptions) error {
	key, value := it.Key(), oneByte
	if !how.KeysOnly {
		value = it.Value()
	}
	if len(key) != keySize || !how.KeysOnly && len(value) != s.cfg.ValueSize {
		return fmt.Errorf("an entry has a key of %d and a value of %d bytes", len(key), len(value))
	}
	th.found++
	th.use(key, value)
	if th.check {
		if order := bytes.Compare(key, th.key); len(th.key) > 0 && (order <= 0) != how.Reverse {
			return errors.New("keys are not in order")
		}
		th.key = append(th.key[:0], key...)
	}
	return nil
}

// use reads a byte of a key and one of a value, which are not empty, as a program does that wants them. An engine whose
// steps touch neither would else be measured without the wait for them.
func (th *thread) use(key, value []byte) { th.used += key[len(key)-1] ^ value[len(value)-1] }

// seekNexts is the number of entries that seekrandom reads after each seek.
const seekNexts = 10

// seekRandom opens an iterator for each seek, as in db_bench.
func seekRandom(s *session) task {
	return simple(everything, func(th *thread, _ int) error {
		return s.scanFrom(th, th.rng.Uint64N(uint64(s.cfg.Num)), seekNexts)
	})
}

// scanFrom seeks stored key n and reads up to nexts entries after it.
func (s *session) scanFrom(th *thread, n uint64, nexts int) error {
	th.key = s.keys.stored(th.key, n)
	it, err := s.engine.NewIterator(engine.IterOptions{})
	if err != nil {
		return err
	}
	ok := it.Seek(th.key)
	if ok && bytes.Equal(it.Key(), th.key) {
		th.found++
		err = s.checkValue(th, n, it.Value())
	}
	for ; ok && nexts > 0; nexts-- {
		if ok = it.Next(); !ok {
			break
		}
		key, value := it.Key(), it.Value()
		if len(key) != keySize || len(value) != s.cfg.ValueSize {
			return errors.Join(err, errors.New("an entry has the wrong size"), it.Close())
		}
		th.use(key, value)
	}
	return errors.Join(err, it.Close())
}

// count returns the number of entries in the database.
func (s *session) count() (n int, err error) {
	it, err := s.engine.NewIterator(engine.IterOptions{})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n, it.Close()
}
