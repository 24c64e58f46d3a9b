package command

import (
	"fmt"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/util"
)

// condition is that of SET and DELEX in Redis 8.4: IFEQ, IFNE, IFDEQ and IFDNE compare the value of the key, or its
// digest, with an argument.
type condition struct {
	arg             int // 0: none
	digest, differs bool
}

var conditions = map[string]condition{
	"ifeq": {}, "ifne": {differs: true}, "ifdeq": {digest: true}, "ifdne": {digest: true, differs: true},
}

// digestLength is that of the digest in hexadecimal digits.
const digestLength = 16

func digestOf(data []byte) string { return fmt.Sprintf("%0*x", digestLength, util.XXH3(data)) }

// parseCondition parses the condition that begins with an argument.
func (c *Call) parseCondition(i int) (k condition, ok bool) {
	if len(c.Args[i]) <= maxName {
		k, ok = conditions[strings.ToLower(string(c.Args[i]))]
	}
	k.arg = i + 1
	return k, ok && k.arg < len(c.Args)
}

// malformed replies with an error if a condition cannot be met by any value.
func (c *Call) malformed(k condition) bool {
	bad := k.digest && (len(c.Args[k.arg]) != digestLength || strings.Trim(string(c.Args[k.arg]), "0123456789abcdefABCDEF") != "")
	if bad {
		c.Reply.Error("ERR the digest must be exactly 16 hexadecimal characters")
	}
	return bad
}

// meets reports whether a value meets a condition. An absent key differs from all.
func (c *Call) meets(k condition, v kv.Value, found bool) bool {
	switch {
	case k.arg == 0:
		return true
	case k.digest:
		return k.differs != (found && strings.EqualFold(digestOf(v.Data), string(c.Args[k.arg])))
	}
	return k.differs != (found && string(v.Data) == string(c.Args[k.arg]))
}

// delex is DELEX key [condition value].
func delex(c *Call, tx kv.Tx) error {
	var k condition
	switch len(c.Args) {
	case 2:
	case 4:
		var ok bool
		if k, ok = c.parseCondition(2); !ok {
			c.Reply.Error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
			return nil
		}
	default:
		c.Reply.Error(WrongArity("delex"))
		return nil
	}
	if c.malformed(k) {
		return nil
	}
	return c.deleteIf(k, tx)
}

// delifeq is DELIFEQ key value of Valkey 9.
func delifeq(c *Call, tx kv.Tx) error { return c.deleteIf(condition{arg: 2}, tx) }

func (c *Call) deleteIf(k condition, tx kv.Tx) error {
	v, found, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	deletes := found && c.meets(k, v, found)
	if deletes {
		tx.Delete(c.Args[1])
	}
	c.Reply.Flag(deletes)
	return nil
}

func digest(c *Call, r kv.Reader) error {
	v, found, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
	c.value(kv.Value{Data: []byte(digestOf(v.Data))}, found)
	return nil
}
