package command

import (
	"math"
	"math/big"
	"strconv"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func incr(c *Call, tx kv.Tx, v kv.Value, found bool) error { return c.add(tx, v, found, 1) }
func decr(c *Call, tx kv.Tx, v kv.Value, found bool) error { return c.add(tx, v, found, -1) }

func incrby(c *Call, tx kv.Tx, v kv.Value, found bool) error {
	n, err := c.integer(2)
	if err != nil {
		return err
	}
	return c.add(tx, v, found, n)
}

func decrby(c *Call, tx kv.Tx, v kv.Value, found bool) error {
	n, err := c.integer(2)
	switch {
	case err != nil:
		return err
	case n == math.MinInt64:
		return refusal("ERR decrement would overflow")
	}
	return c.add(tx, v, found, -n)
}

func (c *Call) add(tx kv.Tx, v kv.Value, found bool, n int64) error {
	old, ok := int64(0), true
	if found {
		old, ok = ParseInt(v.Data)
	}
	switch {
	case !ok:
		return refusal(errInteger)
	case n < 0 && old < math.MinInt64-n, n > 0 && old > math.MaxInt64-n:
		return refusal(errOverflow)
	}
	var digits [20]byte
	tx.Put(c.Args[1], kv.Value{Data: strconv.AppendInt(digits[:0], old+n, 10), ExpireAt: v.ExpireAt})
	c.Reply.Int(old + n)
	return nil
}

func incrbyfloat(c *Call, tx kv.Tx, v kv.Value, found bool) error {
	old, ok := new(big.Float).SetPrec(longDoubleBits), true
	if found {
		old, ok = parseFloat(v.Data)
	}
	n, okArg := parseFloat(c.Args[2])
	switch {
	case !ok || !okArg:
		return refusal(errFloat)
	case old.IsInf() || n.IsInf():
		return refusal(errInfinity)
	}
	sum := new(big.Float).SetPrec(longDoubleBits).Add(old, n)
	if sum.MantExp(nil) > longDoubleMaxExp {
		return refusal(errInfinity)
	}
	data := []byte(formatFloat(sum))
	tx.Put(c.Args[1], kv.Value{Data: data, ExpireAt: v.ExpireAt})
	c.Reply.Bulk(data)
	return nil
}
