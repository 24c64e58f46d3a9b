package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func get(c *Call, _ kv.Reader, v kv.Value, found bool) error {
	c.value(v, found)
	return nil
}

// value replies with a value, or with null.
func (c *Call) value(v kv.Value, found bool) {
	if found {
		c.Reply.Bulk(v.Data)
	} else {
		c.Reply.Null()
	}
}

// storeOptions are the options of SET and GETEX.
type storeOptions struct {
	nx, xx, get, keepTTL, persist bool
	condition                     condition
	expiryArg                     int // the argument with the expiry; 0: none
	unit                          expiryUnit
}

// expiryWords are the options that have a time as their next argument.
var expiryWords = []struct {
	word string
	unit expiryUnit
}{{"ex", inSeconds}, {"px", inMillis}, {"exat", atSeconds}, {"pxat", atMillis}}

// parseStoreOptions parses the options from an argument on, as Redis's parseExtendedStringArgumentsOrReply does.
func (c *Call) parseStoreOptions(from int, isSet bool) (o storeOptions, err error) {
	for i := from; i < len(c.Args); i++ {
		switch {
		case isSet && c.parseWhether(i, &o):
			i = max(i, o.condition.arg)
		case isSet && c.is(i, "get"):
			o.get = true
		case isSet && c.is(i, "keepttl") && o.expiryArg == 0:
			o.keepTTL = true
		case !isSet && c.is(i, "persist") && o.expiryArg == 0:
			o.persist = true
		case c.parseExpiryOption(i, &o):
			i++
		default:
			return o, refusal(errSyntax)
		}
	}
	return o, nil
}

// parseWhether parses an option that says whether SET stores. There is one of a kind.
func (c *Call) parseWhether(i int, o *storeOptions) bool {
	if o.condition.arg != 0 {
		return false
	}
	nx, xx := c.is(i, "nx") && !o.xx, c.is(i, "xx") && !o.nx
	o.nx, o.xx = o.nx || nx, o.xx || xx
	if nx || xx {
		return true
	}
	k, ok := c.parseCondition(i)
	if ok = ok && !o.nx && !o.xx; ok {
		o.condition = k
	}
	return ok
}

func (c *Call) parseExpiryOption(i int, o *storeOptions) bool {
	for _, e := range expiryWords {
		if c.is(i, e.word) {
			if i+1 >= len(c.Args) || o.keepTTL || o.persist || o.expiryArg != 0 && o.unit != e.unit {
				return false
			}
			o.expiryArg, o.unit = i+1, e.unit
			return true
		}
	}
	return false
}

func set(c *Call, tx kv.Tx) error {
	o, err := c.parseStoreOptions(3, true)
	if err == nil {
		err = c.wellFormed(o.condition)
	}
	if err != nil {
		return err
	}
	v := kv.Value{Data: c.Args[2]}
	if o.expiryArg != 0 {
		if v.ExpireAt, err = c.futureExpiry(o.expiryArg, o.unit, tx.Now(), "set"); err != nil {
			return err
		}
	}
	var old kv.Value
	var found bool
	if o.nx || o.xx || o.get || o.keepTTL || o.condition.arg != 0 { // a plain SET need not read
		if old, found, err = tx.Get(c.Args[1]); err != nil {
			return err
		}
	}
	stores := !(o.nx && found) && !(o.xx && !found) && c.meets(o.condition, old, found)
	switch {
	case o.get:
		c.value(old, found)
	case stores:
		c.Reply.OK()
	default:
		c.Reply.Null()
	}
	if stores {
		if o.keepTTL {
			v.ExpireAt = old.ExpireAt
		}
		put(tx, c.Args[1], v)
	}
	return nil
}

func setnx(c *Call, tx kv.Tx, _ kv.Value, found bool) error {
	if !found {
		tx.Put(c.Args[1], kv.Value{Data: c.Args[2]})
	}
	c.Reply.Flag(!found)
	return nil
}

// setex returns the function of SETEX and PSETEX.
func setex(name string, u expiryUnit) func(*Call, kv.Tx) error {
	return func(c *Call, tx kv.Tx) error {
		at, err := c.futureExpiry(2, u, tx.Now(), name)
		if err == nil {
			tx.Put(c.Args[1], kv.Value{Data: c.Args[3], ExpireAt: at})
			c.Reply.OK()
		}
		return err
	}
}

func getset(c *Call, tx kv.Tx, old kv.Value, found bool) error {
	c.value(old, found)
	tx.Put(c.Args[1], kv.Value{Data: c.Args[2]})
	return nil
}

func getdel(c *Call, tx kv.Tx, old kv.Value, found bool) error {
	c.value(old, found)
	if found {
		tx.Delete(c.Args[1])
	}
	return nil
}

func getex(c *Call, tx kv.Tx) error {
	o, err := c.parseStoreOptions(2, false)
	if err != nil {
		return err
	}
	v, found, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	if !found {
		c.Reply.Null()
		return nil
	}
	at := v.ExpireAt
	switch {
	case o.persist:
		at = 0
	case o.expiryArg != 0:
		if at, err = c.futureExpiry(o.expiryArg, o.unit, tx.Now(), "getex"); err != nil {
			return err
		}
	}
	c.Reply.Bulk(v.Data)
	if at != v.ExpireAt {
		put(tx, c.Args[1], kv.Value{Data: v.Data, ExpireAt: at})
	}
	return nil
}

func mget(c *Call, r kv.Reader) error {
	m := c.Reply.mark()
	c.Reply.Array(len(c.Args) - 1)
	for _, key := range c.Args[1:] {
		v, found, err := r.Get(key)
		if err != nil {
			return err
		}
		c.value(v, found)
		if c.tooLong(m) {
			return nil
		}
	}
	return nil
}

// tooLong replaces the reply since m by an error if it exceeds the limit. It also returns true if there is no memory
// for the reply.
func (c *Call) tooLong(m mark) bool {
	if c.Reply.Missing > 0 {
		return true
	}
	if c.Reply.since(m) <= c.Limits.MaxReply {
		return false
	}
	c.Reply.undo(m)
	c.Reply.Errorf("ERR the reply exceeds %d bytes: ask for fewer keys at a time", c.Limits.MaxReply)
	return true
}

func mset(c *Call, tx kv.Tx) error {
	if len(c.Args)%2 == 0 {
		return refusal(WrongArity("mset"))
	}
	c.putPairs(tx)
	c.Reply.OK()
	return nil
}

func (c *Call) putPairs(tx kv.Tx) {
	for i := 1; i < len(c.Args); i += 2 {
		tx.Put(c.Args[i], kv.Value{Data: c.Args[i+1]})
	}
}

func msetnx(c *Call, tx kv.Tx) error {
	if len(c.Args)%2 == 0 {
		return refusal(WrongArity("msetnx"))
	}
	for i := 1; i < len(c.Args); i += 2 {
		_, found, err := tx.Get(c.Args[i])
		if err != nil {
			return err
		}
		if found {
			c.Reply.Int(0)
			return nil
		}
	}
	c.putPairs(tx)
	c.Reply.Int(1)
	return nil
}

func strlen(c *Call, _ kv.Reader, v kv.Value, _ bool) error {
	c.Reply.Int(int64(len(v.Data)))
	return nil
}

func appendValue(c *Call, tx kv.Tx, v kv.Value, _ bool) error {
	if len(v.Data)+len(c.Args[2]) > c.Limits.MaxValue {
		return refusal(errTooLong)
	}
	data := make([]byte, 0, len(v.Data)+len(c.Args[2]))
	data = append(append(data, v.Data...), c.Args[2]...)
	tx.Put(c.Args[1], kv.Value{Data: data, ExpireAt: v.ExpireAt})
	c.Reply.Int(int64(len(data)))
	return nil
}

// clampRange turns Redis's inclusive range, in which negative positions count from the end, into
// [first, last] within length; it is empty if first > last.
func clampRange(start, end, length int64) (first, last int64) {
	if start < 0 && end < 0 && start > end {
		return 0, -1
	}
	if start < 0 {
		start = max(0, start+length)
	}
	if end < 0 {
		end = max(0, end+length)
	}
	return start, min(end, length-1)
}

func getrange(c *Call, r kv.Reader) error {
	start, end, err := c.integers(2)
	if err != nil {
		return err
	}
	v, _, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
	first, last := clampRange(start, end, int64(len(v.Data)))
	if first > last {
		c.Reply.Bulk(nil)
	} else {
		c.Reply.Bulk(v.Data[first : last+1])
	}
	return nil
}

func setrange(c *Call, tx kv.Tx) error {
	offset, err := c.integer(2)
	if err != nil {
		return err
	}
	if offset < 0 {
		return refusal("ERR offset is out of range")
	}
	v, _, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	part := c.Args[3]
	if len(part) == 0 {
		c.Reply.Int(int64(len(v.Data)))
		return nil
	}
	if offset > int64(c.Limits.MaxValue-len(part)) {
		return refusal(errTooLong)
	}
	data := make([]byte, max(len(v.Data), int(offset)+len(part)))
	copy(data, v.Data)
	copy(data[offset:], part)
	tx.Put(c.Args[1], kv.Value{Data: data, ExpireAt: v.ExpireAt})
	c.Reply.Int(int64(len(data)))
	return nil
}

// cas is CAS key old new: it stores new if the key has exactly the value old. The key keeps its expiry.
func cas(c *Call, tx kv.Tx, v kv.Value, found bool) error {
	if !found {
		c.Reply.Null()
		return nil
	}
	equal := string(v.Data) == string(c.Args[2])
	if equal {
		tx.Put(c.Args[1], kv.Value{Data: c.Args[3], ExpireAt: v.ExpireAt})
	}
	c.Reply.Flag(equal)
	return nil
}
