// Package layout has the bytes of a group: how its state is stored in a database, and the entries of
// its replicated log.
//
// # State
//
// The state of a group is a SieveDB database with these keys. Numbers are big-endian, so that keys sort by them.
//
//	k | slot (2) | key            a key with its value: flags (1) | expiry (8, if flag 1) | data
//	x | time (8) | slot (2) | key a key that may have expired at that time; the value is empty
//	m | name                      what the group itself stores: "applied", "configuration", "clock"
//	o | slot (2) | ID             the outcome of a request with an ID: the time until which it is kept (8) | outcome
//	p | time (8) | slot (2) | ID  an outcome that is kept until that time; the value is empty
//
// An x entry is a hint: the key may have been deleted, or have got another time, since. So is a p entry.
//
// # Entries
//
// An entry of the log is
//
//	version (1) = 1 | kind (1) | term (8) | epoch (4) | number (8) | time (8) | payload
//
// Kind 0 is a batch as db.Batch.MarshalBinary encodes it, or nothing. Kind 1 first deletes all k and x keys,
// and then is like kind 0.
//
// A leader evaluates each command on what all earlier entries of its leadership write, while these are still on
// their way. So an entry counts only if it follows the one before it: term, epoch and number say which that is
// (Chain). The entry with number 0 begins a leadership. An entry that the log has in another term than that of
// its evaluation does not count either: others may have written in between.
//
// time is the clock by which keys expire, in milliseconds since 1970; replicas use the largest that they have applied.
package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// The first bytes of the keys of a group's database. They reach the disk and never change.
const (
	KeyPrefix    = 'k'
	ExpiryPrefix = 'x'
	MetaPrefix   = 'm'

	OutcomePrefix       = 'o'
	OutcomeExpiryPrefix = 'p'
)

// MaxKey is the length of the longest key that clients may use.
const MaxKey = 1<<20 - 64

// AppendKey appends the database's key of a client's key.
func AppendKey(dst []byte, slot uint16, key []byte) []byte {
	dst = append(dst, KeyPrefix)
	dst = binary.BigEndian.AppendUint16(dst, slot)
	return append(dst, key...)
}

// ParseKey is the inverse of AppendKey. The key shares the memory of dbKey.
func ParseKey(dbKey []byte) (slot uint16, key []byte, err error) {
	if len(dbKey) < 3 || dbKey[0] != KeyPrefix {
		return 0, nil, fmt.Errorf("a key of %d bytes is not that of an entry", len(dbKey))
	}
	return binary.BigEndian.Uint16(dbKey[1:]), dbKey[3:], nil
}

// AppendHint appends the database's key of the hint that a key (ExpiryPrefix), or the outcome of a request with an ID
// (OutcomeExpiryPrefix), expires.
func AppendHint(dst []byte, prefix byte, at int64, slot uint16, id []byte) []byte {
	dst = append(dst, prefix)
	dst = binary.BigEndian.AppendUint64(dst, uint64(at))
	dst = binary.BigEndian.AppendUint16(dst, slot)
	return append(dst, id...)
}

// ParseHint is the inverse of AppendHint. The key or ID shares the memory of dbKey.
func ParseHint(prefix byte, dbKey []byte) (at int64, slot uint16, id []byte, err error) {
	if len(dbKey) < 11 || dbKey[0] != prefix {
		return 0, 0, nil, fmt.Errorf("a key of %d bytes is not that of an expiry", len(dbKey))
	}
	return int64(binary.BigEndian.Uint64(dbKey[1:])), binary.BigEndian.Uint16(dbKey[9:]), dbKey[11:], nil
}

// Meta returns the database's key of what the group itself stores under a name.
func Meta(name string) []byte { return append([]byte{MetaPrefix}, name...) }

// AppendOutcomeKey appends the database's key of the outcome of a request.
func AppendOutcomeKey(dst []byte, slot uint16, id []byte) []byte {
	dst = append(dst, OutcomePrefix)
	dst = binary.BigEndian.AppendUint16(dst, slot)
	return append(dst, id...)
}

// AppendOutcome appends the encoding of an outcome that is kept until a time.
func AppendOutcome(dst []byte, until int64, outcome []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(until)), outcome...)
}

// ParseOutcome is the inverse of AppendOutcome. The outcome shares the memory of b.
func ParseOutcome(b []byte) (until int64, outcome []byte, err error) {
	if len(b) < 8 {
		return 0, nil, fmt.Errorf("an outcome has %d bytes, at least 8 are expected", len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), b[8:], nil
}

const expires = 1 // a flag of values

// AppendValue appends the encoding of a value.
func AppendValue(dst []byte, v kv.Value) []byte {
	if v.ExpireAt == 0 {
		dst = append(dst, 0)
	} else {
		dst = append(dst, expires)
		dst = binary.BigEndian.AppendUint64(dst, uint64(v.ExpireAt))
	}
	return append(dst, v.Data...)
}

var errValue = errors.New("a value has an unknown encoding")

// ParseValue is the inverse of AppendValue. The data shares the memory of b.
func ParseValue(b []byte) (kv.Value, error) {
	switch {
	case len(b) >= 1 && b[0] == 0:
		return kv.Value{Data: b[1:]}, nil
	case len(b) >= 9 && b[0] == expires && binary.BigEndian.Uint64(b[1:]) != 0:
		return kv.Value{Data: b[9:], ExpireAt: int64(binary.BigEndian.Uint64(b[1:]))}, nil
	}
	return kv.Value{}, errValue
}

// ErrSuperseded is the answer of a state to an entry that does not count; see Chain.
var ErrSuperseded = errors.New("the entry does not follow the one on which it was evaluated, and does not count")

// EntryKind is what an entry of the log does.
type EntryKind byte

// The kinds of entries. They reach the disk and never change.
const (
	EntryBatch     EntryKind = 0
	EntryDeleteAll EntryKind = 1
)

// Entry is an entry of the replicated log.
type Entry struct {
	Kind EntryKind
	Chain
	Time    int64
	Payload []byte
}

// Chain is the place of an entry: of a leadership, which is a term and an epoch within it, the number of the entry.
type Chain struct {
	Term   uint64
	Epoch  uint32
	Number uint64
}

// ChainLen is the length of an encoded Chain.
const ChainLen = 20

// AppendChain appends the encoding of c.
func AppendChain(dst []byte, c Chain) []byte {
	dst = binary.BigEndian.AppendUint64(dst, c.Term)
	dst = binary.BigEndian.AppendUint32(dst, c.Epoch)
	return binary.BigEndian.AppendUint64(dst, c.Number)
}

// ParseChain decodes ChainLen bytes.
func ParseChain(b []byte) Chain {
	_ = b[ChainLen-1]
	return Chain{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint64(b[12:])}
}

// Continues reports whether an entry with this place counts: the log has it in logTerm, and last is the place of the
// last entry that counted.
func (c Chain) Continues(last Chain, logTerm uint64) bool {
	if c.Term != logTerm {
		return false
	}
	return c.Number == 0 || last.Number != 1<<64-1 && c == Chain{last.Term, last.Epoch, last.Number + 1}
}

const (
	entryVersion = 1
	entryHeader  = 2 + ChainLen + 8
)

// AppendEntryHeader appends all of an entry but its payload, which the caller appends.
func AppendEntryHeader(dst []byte, e Entry) []byte {
	dst = append(dst, entryVersion, byte(e.Kind))
	dst = AppendChain(dst, e.Chain)
	return binary.BigEndian.AppendUint64(dst, uint64(e.Time))
}

// ParseEntry decodes an entry. The payload shares the memory of b.
func ParseEntry(b []byte) (Entry, error) {
	if len(b) < entryHeader {
		return Entry{}, fmt.Errorf("an entry has %d bytes, at least %d are expected", len(b), entryHeader)
	}
	if b[0] != entryVersion {
		return Entry{}, fmt.Errorf("an entry has version %d, and version %d is supported: upgrade this node", b[0], entryVersion)
	}
	e := Entry{
		Kind: EntryKind(b[1]), Chain: ParseChain(b[2:]), Time: int64(binary.BigEndian.Uint64(b[2+ChainLen:])),
		Payload: b[entryHeader:],
	}
	if e.Kind > EntryDeleteAll {
		return Entry{}, fmt.Errorf("an entry has kind %d, and kinds up to %d are supported: upgrade this node", e.Kind, EntryDeleteAll)
	}
	return e, nil
}
