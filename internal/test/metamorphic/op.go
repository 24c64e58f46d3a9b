package metamorphic

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Kind is what an operation does.
type Kind int

// The operations. Slots number snapshots and iterators, each kind from 0. One load at
// most is under way.
const (
	Put           Kind = iota // Key, Value, Sync, Buffered
	Delete                    // Key, Sync, Buffered
	Apply                     // Batch, Sync, Buffered
	Get                       // Key; of snapshot Slot, where that is >= 0; NoFill
	Has                       // Key
	MultiGet                  // Keys
	NewSnapshot               // Slot
	CloseSnapshot             // Slot
	NewIterator               // Slot; Of, a snapshot's slot or -1; Key and Limit, the bounds; NoFill, KeysOnly
	CloneIterator             // Slot; Of, the slot of another iterator; Same or Key, Limit, NoFill and KeysOnly
	Loop                      // as NewIterator without a slot, by All and Backward; Count, the rounds of each
	Move                      // Slot, Moves
	CloseIterator             // Slot
	Flush                     //
	SyncLog                   //
	Compact                   // Key, Limit
	Upgrade                   // Of, a policy's number
	Tune                      // Of, the option set whose changeable options come into force
	Reopen                    //
	Crash                     // a power cut, and opening again
	OpenReadOnly              // closing, and opening again read-only
	NewLoad                   // Batch, in rising order of keys
	CommitLoad                //
	DropLoad                  //
	Ingest                    // Batch, in rising order of keys; Count, the tables; Of, the number of their sequence number; Same, NoFill
	DeleteRange               // Key, Limit, Sync, Buffered
	Contend                   // Keys, Value: a transaction that reads the first key and writes Value, while Key to Limit is deleted, or Batch ingested as one table
	GetTTL                    // Key; of snapshot Slot, where that is >= 0
	Swap                      // Key; Of, which of the swaps; Value, nil for a deletion; TTL, for those that set one
	Tick                      // Of, the milliseconds by which the clock moves
	Finish                    // checking, closing, and looking for leftovers
)

var kindNames = [...]string{"put", "delete", "apply", "get", "has", "multiget", "new snapshot", "close snapshot", "new iterator",
	"clone iterator", "loop", "move", "close iterator", "flush", "sync log", "compact", "upgrade filters", "tune", "reopen", "crash", "open read-only", "new load", "commit load", "drop load", "ingest", "delete range", "contend", "get with its time", "swap", "tick", "finish"}

func (k Kind) String() string { return kindNames[k] }

// Op is one operation of a history. Its Kind determines which fields are used.
type Op struct {
	Kind              Kind
	Slot, Of          int
	Key, Limit, Value []byte
	Keys              [][]byte
	Batch             []Write
	Moves             []Step
	TTL               int  // of a Put, in milliseconds; 0: none
	Sync, Buffered    bool // never both
	NoFill, KeysOnly  bool // NoFill of an Ingest: tables are copied
	Same              bool // the options of the other iterator; of an Ingest: a table of older deletions comes before
	Count             int
}

// Write is one write of a batch.
type Write struct {
	Key, Value []byte
	Delete     bool
	TTL        int // in milliseconds; 0: none
}

// Step is one movement of an iterator: "first", "last", "next", "prev", "seekge"
// and "seeklt" with a key, "forward" and "backward" until it is at no key,
// "setbounds" from a key to a limit.
type Step struct {
	Move       string
	Key, Limit []byte
}

func (o *Op) String() string {
	var b strings.Builder
	b.WriteString(o.Kind.String())
	switch o.Kind {
	case Put:
		fmt.Fprintf(&b, " %q = %s for %d ms", o.Key, show(o.Value), o.TTL)
	case Delete:
		fmt.Fprintf(&b, " %q", o.Key)
	case Apply, NewLoad, Ingest:
		b.WriteString(describeWrites(o.Batch))
	case Get, Has, GetTTL:
		fmt.Fprintf(&b, " %q of snapshot %d", o.Key, o.Slot)
	case MultiGet:
		fmt.Fprintf(&b, " %q of snapshot %d", o.Keys, o.Slot)
	case NewSnapshot, CloseSnapshot, CloseIterator:
		fmt.Fprintf(&b, " %d", o.Slot)
	case NewIterator:
		fmt.Fprintf(&b, " %d of snapshot %d from %s to %s, only keys: %t", o.Slot, o.Of, bound(o.Key), bound(o.Limit), o.KeysOnly)
	case CloneIterator:
		fmt.Fprintf(&b, " %d of %d", o.Slot, o.Of)
		if !o.Same {
			fmt.Fprintf(&b, " from %s to %s, only keys: %t", bound(o.Key), bound(o.Limit), o.KeysOnly)
		}
	case Loop:
		fmt.Fprintf(&b, " over snapshot %d from %s to %s, only keys: %t, %d rounds", o.Of, bound(o.Key), bound(o.Limit), o.KeysOnly, o.Count)
	case Move:
		fmt.Fprintf(&b, " %d:%s", o.Slot, describeMoves(o.Moves))
	case Swap:
		fmt.Fprintf(&b, " by %s %q = %s for %d ms", swapNames[o.Of], o.Key, show(o.Value), o.TTL)
	case Tick:
		fmt.Fprintf(&b, " %d ms", o.Of)
	case Upgrade, Tune:
		fmt.Fprintf(&b, " to number %d", o.Of)
	case Contend:
		fmt.Fprintf(&b, " for %q with %d writes, or from %s to %s", o.Keys, len(o.Batch), bound(o.Key), bound(o.Limit))
	case Compact, DeleteRange:
		fmt.Fprintf(&b, " from %s to %s", bound(o.Key), bound(o.Limit))
	}
	if o.Sync {
		b.WriteString(", synced")
	}
	if o.Buffered {
		b.WriteString(", buffered")
	}
	return b.String()
}

func describeWrites(batch []Write) string {
	var b strings.Builder
	for _, w := range batch {
		if w.Delete {
			fmt.Fprintf(&b, " delete %q", w.Key)
		} else {
			fmt.Fprintf(&b, " %q = %s for %d ms", w.Key, show(w.Value), w.TTL)
		}
	}
	return b.String()
}

func describeMoves(moves []Step) string {
	var b strings.Builder
	for _, s := range moves {
		fmt.Fprintf(&b, " %s", s.Move)
		if s.Key != nil {
			fmt.Fprintf(&b, " %q", s.Key)
		}
		if s.Move == "setbounds" {
			fmt.Fprintf(&b, " to %s", bound(s.Limit))
		}
	}
	return b.String()
}

func bound(key []byte) string {
	if key == nil {
		return "the end"
	}
	return fmt.Sprintf("%q", key)
}

// show abbreviates a value: its beginning, its length and a hash.
func show(value []byte) string { return string(appendShown(nil, value)) }

func appendShown(dst, value []byte) []byte {
	const whole = 20
	if len(value) <= whole {
		return fmt.Appendf(dst, "%q", value)
	}
	h := fnv.New64a()
	_, _ = h.Write(value)
	return fmt.Appendf(dst, "%q… %d bytes, %016x", value[:whole], len(value), h.Sum64())
}
