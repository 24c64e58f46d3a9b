// Package keyspace encodes the prefixes of namespaces. A namespace is the keys that begin with its prefix:
//
//	0x00 | name, with 0x00 as 0x00 0xff | 0x00 0x01
//
// No prefix begins with another one, because 0x00 0x01 occurs in none before its end. So the keys of two namespaces
// never collide, and namespaces are in the order of their names. A key without a namespace collides only if it begins
// with 0x00. The keys of a namespace in a namespace begin with both prefixes.
package keyspace

import (
	"bytes"
	"slices"

	"github.com/sievedb/sievedb/internal/base/errors"
)

const (
	mark    = 0x00 // begins a prefix, and each pair of bytes below
	escaped = 0xff // after mark: a byte 0x00 of the name
	end     = 0x01 // after mark: the end of the name
)

// AppendPrefix appends the prefix of the namespace with that name.
func AppendPrefix(dst []byte, name string) []byte {
	dst = append(dst, mark)
	for i := range len(name) {
		if name[i] == mark {
			dst = append(dst, mark, escaped)
		} else {
			dst = append(dst, name[i])
		}
	}
	return append(dst, mark, end)
}

// Prefixes returns a copy of prefixes with those of the namespaces with these names.
func Prefixes(prefixes [][]byte, names []string) [][]byte {
	all := slices.Clone(prefixes)
	for _, name := range names {
		all = append(all, AppendPrefix(nil, name))
	}
	return all
}

// Name returns the name of the namespace of a key, and the length of its prefix; ok is false if the
// key belongs to none.
func Name(key []byte) (name string, prefix int, ok bool) {
	if len(key) == 0 || key[0] != mark {
		return "", 0, false
	}
	var decoded []byte
	for rest := key[1:]; ; {
		i := bytes.IndexByte(rest, mark)
		if i < 0 || i+1 == len(rest) {
			return "", 0, false
		}
		decoded = append(decoded, rest[:i]...)
		switch rest[i+1] {
		case end:
			return string(decoded), len(key) - len(rest) + i + 2, true
		case escaped:
			decoded = append(decoded, mark)
		default:
			return "", 0, false
		}
		rest = rest[i+2:]
	}
}

// After returns the first key after all keys with a prefix, nil if there is none because prefix has no byte below ff.
func After(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] < 0xff {
			next := bytes.Clone(prefix[:n])
			next[n-1]++
			return next
		}
	}
	return nil
}

// CopyBounds copies bounds, which are without the prefix of a namespace, to the memory of buf. In the
// result they have the prefix. Without a prefix a nil bound stays nil; with one it is an end of the
// prefix. The bounds must not be in buf's memory.
func CopyBounds(buf, prefix, lower, upper []byte) (used, start, limit []byte) {
	if buf == nil {
		buf = make([]byte, 0, 64) // a bound may be empty, but is then not nil
	}
	used = append(append(buf[:0], prefix...), lower...)
	n := len(used)
	if upper == nil && prefix != nil {
		used = append(used, After(prefix)...)
	} else if upper != nil {
		used = append(append(used, prefix...), upper...)
	}
	if lower != nil || prefix != nil {
		start = used[:n:n]
	}
	if upper != nil || prefix != nil {
		limit = used[n:len(used):len(used)]
	}
	return used, start, limit
}

// Bounds returns the first possible key of all namespaces below prefix, and the first key after
// them; prefix is empty or was made by AppendPrefix.
func Bounds(prefix []byte) (start, limit []byte) {
	return append(bytes.Clone(prefix), mark), append(bytes.Clone(prefix), mark+1)
}

// Reader finds keys in order; see db.Iterator.
type Reader interface {
	SeekGE(key []byte) bool
	Key() []byte
	Err() error
}

// Names calls yield with the name of each namespace below prefix that has a key. It seeks once for
// each, and once for each key there that no namespace can have.
func Names(r Reader, prefix []byte, yield func(name string) bool) error {
	start, limit := Bounds(prefix)
	for seek := start; r.SeekGE(seek); {
		key := r.Key()
		if bytes.Compare(key, limit) >= 0 {
			break
		}
		name, n, ok := Name(key[len(prefix):])
		if !ok || CheckName(name) != nil {
			seek = append(bytes.Clone(key), 0) // the next possible key
			continue
		}
		if !yield(name) {
			return nil
		}
		seek = After(key[:len(prefix)+n])
	}
	return r.Err()
}

// MaxName bounds a name, in bytes, so that a prefix takes a small part of a key.
const MaxName = 64 << 10

// CheckName returns why a name cannot be used.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("sievedb: Namespace: the name is empty; give it a name, or use the DB for keys without a namespace")
	case len(name) > MaxName:
		return errors.Newf("sievedb: Namespace: the name has %d bytes, and at most %d are supported", len(name), MaxName)
	}
	return nil
}
