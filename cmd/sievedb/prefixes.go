package main

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/keyspace"
)

// defaultSeparators end the parts of keys.
const defaultSeparators = ":/|"

type sizeFlags struct {
	rangeFlags
	byPrefix   bool
	separators string
	depth      int
	length     int
	limit      int
}

func (s *sizeFlags) add(f *pflag.FlagSet) {
	s.rangeFlags.add(f)
	f.BoolVar(&s.byPrefix, "by-prefix", false, "read all entries, and print what each prefix of keys uses")
	f.StringVar(&s.separators, "separators", defaultSeparators, "each of these characters ends a part of a prefix")
	f.IntVar(&s.depth, "depth", 1, "how many parts a prefix has; a namespace is one")
	f.IntVar(&s.length, "prefix-length", 0, "take so many bytes for the prefix of a key, instead of parts")
	f.IntVarP(&s.limit, "limit", "n", 20, "print at most this many prefixes (0: all)")
}

// prefixUsage is what the entries under one prefix use, before compression.
type prefixUsage struct {
	Prefix       []byte // null: the keys without one
	Keys         uint64
	KeyBytes     size
	ValueBytes   size
	LargestKey   []byte // that of the largest value
	LargestValue size
}

func (p *prefixUsage) bytes() uint64 { return uint64(p.KeyBytes + p.ValueBytes) }

func (p *prefixUsage) add(key, value []byte) {
	p.Keys++
	p.KeyBytes += size(len(key))
	p.ValueBytes += size(len(value))
	if p.LargestKey == nil || size(len(value)) > p.LargestValue {
		p.LargestKey, p.LargestValue = append([]byte{}, key...), size(len(value))
	}
}

// prefixLen returns how many bytes of a key are its prefix, 0 for none.
func (s *sizeFlags) prefixLen(key []byte) int {
	if s.length > 0 {
		return min(s.length, len(key))
	}
	end := 0
	for range s.depth {
		if name, n, ok := keyspace.Name(key[end:]); ok && keyspace.CheckName(name) == nil {
			end += n
		} else if i := bytes.IndexAny(key[end:], s.separators); i >= 0 {
			_, n := utf8.DecodeRune(key[end+i:])
			end += i + n
		} else {
			break
		}
	}
	return end
}

// prefixes prints which prefixes of keys use the most space. Between keys with the same prefix are only keys with
// longer ones, so that those that are printed, and the prefixes of the present key, are all that is in memory.
func (a *app) prefixes(args []string, s *sizeFlags) error {
	switch {
	case s.depth < 1:
		return misuse("--depth is %d; want 1 or more", s.depth)
	case s.length < 0 || s.limit < 0:
		return misuse("--prefix-length is %d and --limit %d; want 0 or more", s.length, s.limit)
	}
	return a.readKeys(args[0], func(store *db.DB) error {
		bounds, err := s.bounds(a, args)
		if err != nil {
			return err
		}
		top := topPrefixes{limit: s.limit}
		var all, none prefixUsage
		var open []*prefixUsage // each begins with the one before it
		p := a.progressOver("reading", "key", store, bounds)
		err = a.each(store, bounds, false, func(key, value []byte) (bool, error) {
			p.entry(key, value)
			key = a.bare(key)
			all.add(key, value)
			n := s.prefixLen(key)
			if n == 0 {
				none.add(key, value)
				return true, nil
			}
			for len(open) > 0 && !bytes.HasPrefix(key, open[len(open)-1].Prefix) {
				top.add(open[len(open)-1])
				open = open[:len(open)-1]
			}
			if len(open) == 0 || len(open[len(open)-1].Prefix) != n {
				open = append(open, &prefixUsage{Prefix: bytes.Clone(key[:n])})
			}
			open[len(open)-1].add(key, value)
			return true, nil
		})
		p.close()
		if err != nil {
			return err
		}
		for _, p := range open {
			top.add(p)
		}
		if none.Keys > 0 {
			top.add(&none)
		}
		return a.printPrefixes(&top, &all)
	})
}

// topPrefixes are the prefixes that use the most, at most limit of them; 0 is no limit.
type topPrefixes struct {
	limit int
	list  []prefixUsage
	count int // of all prefixes
}

func (t *topPrefixes) add(p *prefixUsage) {
	t.count++
	t.list = append(t.list, *p)
	if t.limit > 0 && len(t.list) >= 2*t.limit+100 {
		t.sort()
	}
}

// sort puts the largest first and drops those after the limit.
func (t *topPrefixes) sort() {
	slices.SortStableFunc(t.list, func(a, b prefixUsage) int { return cmp.Compare(b.bytes(), a.bytes()) })
	if t.limit > 0 && len(t.list) > t.limit {
		t.list = slices.Clip(t.list[:t.limit])
	}
}

func (a *app) printPrefixes(top *topPrefixes, all *prefixUsage) error {
	top.sort()
	value := struct {
		Prefixes             []prefixUsage
		AllPrefixes          int
		Keys                 uint64
		KeyBytes, ValueBytes size
	}{nonNilSlice(top.list), top.count, all.Keys, all.KeyBytes, all.ValueBytes}
	return a.out.result(value, func() {
		t := a.out.table("~prefix", "keys", "bytes", "share", "+largest value", "~its key")
		for _, p := range top.list {
			t.row(a.keyText(p.Prefix), p.Keys, size(p.bytes()), share(p.bytes(), all.bytes()), p.LargestValue, a.keyText(p.LargestKey))
		}
		if rest := top.count - len(top.list); rest > 0 {
			a.notice("%s; --limit 0 prints all", a.out.count(uint64(rest), "more prefix"))
		}
		t.row("all", all.Keys, size(all.bytes()), share(all.bytes(), all.bytes()), all.LargestValue, a.keyText(all.LargestKey))
		t.print()
	})
}

// keyText prints a key or prefix. As text, one of a namespace has its name in brackets.
func (a *app) keyText(key []byte) string {
	if key == nil {
		return "(none)"
	}
	if _, _, ok := keyspace.Name(key); ok && a.out.format.key == encText {
		return encNamespace.text(key)
	}
	return a.out.key(key)
}
