package metamorphic

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
)

// Kind is what an operation does.
type Kind int

// The operations. Slots number snapshots and iterators, each kind from 0. One load at most is under way.
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
	Tick                      // Of, the milliseconds by which the clock moves; Count, those by which it is set back then
	NewTxn                    // Same: a bulk transaction; Sync, Buffered. It is read like a snapshot, of slot inTxn
	WriteTxn                  // Batch
	CommitTxn                 //
	DropTxn                   //
	Sweep                     // a compaction of all, with a filter that drops some values and replaces others
	Finish                    // checking, closing, and looking for leftovers
)

var kindNames = [...]string{"put", "delete", "apply", "get", "has", "multiget", "new snapshot", "close snapshot", "new iterator",
	"clone iterator", "loop", "move", "close iterator", "flush", "sync log", "compact", "upgrade filters", "tune", "reopen", "crash", "open read-only", "new load", "commit load", "drop load", "ingest", "delete range", "contend", "get with its time", "swap", "tick", "new transaction", "write in transaction",
	"commit transaction", "drop transaction", "sweep", "finish"}

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
	TTL        int    // in milliseconds; 0: none
	Range      bool   // a deletion of the keys from Key
	Limit      []byte // to this one
}

// Step is one movement of an iterator: "first", "last", "next", "prev", "seekge" and "seeklt" with a key, "forward" and
// "backward" until it is at no key, "setbounds" from a key to a limit, "refresh" to the present moment.
type Step struct {
	Move       string
	Key, Limit []byte
}

// String returns the kind, and those fields that are set. A slot 0 is not shown.
func (o *Op) String() string {
	var b strings.Builder
	b.WriteString(o.Kind.String())
	if o.Kind == Swap {
		fmt.Fprintf(&b, " by %s", swapNames[o.Of])
	}
	v := reflect.ValueOf(*o)
	for i := 1; i < v.NumField(); i++ {
		if f := v.Field(i); !f.IsZero() {
			fmt.Fprintf(&b, " %s %s", v.Type().Field(i).Name, describeField(f.Interface()))
		}
	}
	return b.String()
}

func describeField(field any) string {
	switch f := field.(type) {
	case []byte:
		return show(f)
	case [][]byte:
		return fmt.Sprintf("%q", f)
	case []Write:
		return describeAll(f, func(w Write) string {
			switch {
			case w.Range:
				return fmt.Sprintf("delete from %q to %q", w.Key, w.Limit)
			case w.Delete:
				return fmt.Sprintf("delete %q", w.Key)
			}
			return fmt.Sprintf("%q = %s for %d ms", w.Key, show(w.Value), w.TTL)
		})
	case []Step:
		return describeAll(f, func(s Step) string {
			text := s.Move
			for _, key := range [][]byte{s.Key, s.Limit} {
				if key != nil {
					text += fmt.Sprintf(" %q", key)
				}
			}
			return text
		})
	}
	return fmt.Sprint(field)
}

func describeAll[T any](all []T, one func(T) string) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = one(all[i])
	}
	return strings.Join(texts, ", ")
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
