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

// wellFormed returns an error if a condition cannot be met by any value.
func (c *Call) wellFormed(k condition) error {
	if k.digest && (len(c.Args[k.arg]) != digestLength || strings.Trim(string(c.Args[k.arg]), "0123456789abcdefABCDEF") != "") {
		return refusal("ERR the digest must be exactly 16 hexadecimal characters")
	}
	return nil
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
func delex(c *Call, tx kv.Tx, v kv.Value, found bool) error {
	var k condition
	switch len(c.Args) {
	case 2:
	case 4:
		var ok bool
		if k, ok = c.parseCondition(2); !ok {
			return refusal("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
		}
	default:
		return refusal(WrongArity("delex"))
	}
	if err := c.wellFormed(k); err != nil {
		return err
	}
	c.deleteIf(found && c.meets(k, v, found), tx)
	return nil
}

// delifeq is DELIFEQ key value of Valkey 9.
func delifeq(c *Call, tx kv.Tx, v kv.Value, found bool) error {
	c.deleteIf(found && string(v.Data) == string(c.Args[2]), tx)
	return nil
}

func (c *Call) deleteIf(deletes bool, tx kv.Tx) {
	if deletes {
		tx.Delete(c.Args[1])
	}
	c.Reply.Flag(deletes)
}

func digest(c *Call, _ kv.Reader, v kv.Value, found bool) error {
	c.value(kv.Value{Data: []byte(digestOf(v.Data))}, found)
	return nil
}
