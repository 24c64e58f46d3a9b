package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/keyspace"
)

// format returns what the flags about keys and values say. prefix is that of the namespace.
func (g *globals) format() (f format, prefix []byte, err error) {
	for _, e := range []struct {
		set bool
		enc encoding
	}{{g.hex, encHex}, {g.base64, encBase64}, {g.raw, encRaw}} {
		if e.set && f.key != encText {
			return f, nil, errors.New("only one of --hex, --base64 and --raw can be used")
		}
		if e.set {
			f = format{e.enc, e.enc}
		}
	}
	for _, e := range []struct {
		name, word string
		enc        *encoding
	}{{"key-format", g.keyFormat, &f.key}, {"value-format", g.valueFormat, &f.value}} {
		enc, ok := encodings[e.word]
		if e.word != "" && (!ok || enc == encNamespace && e.enc == &f.value) {
			return f, nil, fmt.Errorf("--%s %q; want %s", e.name, e.word, strings.Join(flagWords[e.name], ", "))
		}
		if ok {
			*e.enc = enc
		}
	}
	if g.json && (f.key == encRaw || f.value == encRaw) {
		return f, nil, errors.New("--raw and --json cannot be used together; JSON shows bytes with --hex or --base64")
	}
	for _, word := range g.namespace {
		name, err := encText.decode([]byte(word))
		if err == nil && (len(name) == 0 || len(name) > keyspace.MaxName) {
			err = fmt.Errorf("a name has 1 to %d bytes", keyspace.MaxName)
		}
		if err != nil {
			return f, nil, fmt.Errorf("--namespace %q: %w", word, err)
		}
		prefix = keyspace.AppendPrefix(prefix, string(name))
	}
	return f, prefix, nil
}

// key decodes a key and puts it into the namespace.
func (a *app) key(b []byte) ([]byte, error) {
	key, err := a.out.format.key.decode(b)
	return a.whole(key), err
}

// whole puts a key into the namespace. It is the inverse of bare.
func (a *app) whole(key []byte) []byte {
	if len(a.out.prefix) == 0 {
		return key
	}
	return slices.Concat(a.out.prefix, key)
}

// bare returns a key of the namespace without its prefix, as it is given and printed.
func (a *app) bare(key []byte) []byte {
	if bare, ok := bytes.CutPrefix(key, a.out.prefix); ok && key != nil {
		return nonNil(bare)
	}
	return key
}

// keyArg reads the key of argument i.
func (a *app) keyArg(args []string, i int) ([]byte, error) {
	key, err := a.key([]byte(args[i]))
	if err != nil {
		return nil, misuse("argument %d: %w", i+1, err)
	}
	return key, nil
}

// flagKey reads the value of a flag that is a key or a prefix.
func (a *app) flagKey(name, word string) ([]byte, error) {
	key, err := a.key([]byte(word))
	if err != nil {
		return nil, misuse("%s: %w", name, err)
	}
	return key, nil
}

// within returns the bounds of a range; a nil one is that of the namespace.
func (a *app) within(from, to []byte) *db.IterOptions {
	if len(a.out.prefix) == 0 {
		return &db.IterOptions{LowerBound: from, UpperBound: to}
	}
	bounds := db.PrefixBounds(a.out.prefix)
	if from != nil {
		bounds.LowerBound = from
	}
	if to != nil {
		bounds.UpperBound = to
	}
	return bounds
}

// namespaces prints the names of the namespaces of a database, or of those within one.
func (a *app) namespaces(args []string) error {
	return a.readKeys(args[0], func(store *db.DB) error {
		it, err := store.NewIterator(a.within(nil, nil))
		if err != nil {
			return err
		}
		defer it.Close()
		var perr error
		err = keyspace.Names(it, a.out.prefix, func(name string) bool {
			perr = a.out.item(struct{ Namespace []byte }{[]byte(name)}, func() { a.out.printf("%s\n", a.out.key([]byte(name))) })
			return perr == nil && a.ctx.Err() == nil
		})
		return errors.Join(err, perr, a.ctx.Err())
	})
}
