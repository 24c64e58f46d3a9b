// Package comparer defines the order of keys.
package comparer

import "github.com/sievedb/sievedb"

// BasicComparer orders keys.
type BasicComparer interface {
	// Compare returns a negative number, zero or a positive number as a sorts before, with or
	// after b. Only keys with the same bytes are equal, and the empty key sorts first.
	Compare(a, b []byte) int
}

// Comparer is an order with the functions that keep indexes small.
type Comparer interface {
	BasicComparer

	// Name identifies the order. A database opens only under the name that it was created with.
	Name() string

	// Separator appends to dst a key x with a <= x < b, or returns nil if it has nothing better than a.
	Separator(dst, a, b []byte) []byte

	// Successor appends to dst a key x >= b, or returns nil if it has nothing better than b.
	Successor(dst, b []byte) []byte
}

// DefaultComparer orders keys as bytes.Compare does. It is LevelDB's default.
var DefaultComparer = bytesComparer{}

type bytesComparer struct{}

func (bytesComparer) Compare(a, b []byte) int { return sievedb.Bytewise.Compare(a, b) }

func (bytesComparer) Name() string { return sievedb.Bytewise.Name }

func (bytesComparer) Separator(dst, a, b []byte) []byte {
	return shorter(sievedb.Bytewise.Separator(dst, a, b), dst, a)
}

func (bytesComparer) Successor(dst, b []byte) []byte {
	return shorter(sievedb.Bytewise.Successor(dst, b), dst, b)
}

// shorter returns x, which is dst and a key, or nil if that key is the given one.
func shorter(x, dst, key []byte) []byte {
	if string(x[len(dst):]) == string(key) {
		return nil
	}
	return x
}
