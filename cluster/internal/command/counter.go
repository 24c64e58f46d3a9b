package command

import (
	"math"
	"math/big"
	"strconv"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func incr(c *Call, tx kv.Tx) error { return c.add(tx, 1) }
func decr(c *Call, tx kv.Tx) error { return c.add(tx, -1) }

func incrby(c *Call, tx kv.Tx) error {
	n, ok := c.integer(2)
	if !ok {
		return nil
	}
	return c.add(tx, n)
}

func decrby(c *Call, tx kv.Tx) error {
	n, ok := c.integer(2)
	if !ok {
		return nil
	}
	if n == math.MinInt64 {
		c.Reply.Error("ERR decrement would overflow")
		return nil
	}
	return c.add(tx, -n)
}

func (c *Call) add(tx kv.Tx, n int64) error {
	v, found, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	old, ok := int64(0), true
	if found {
		old, ok = ParseInt(v.Data)
	}
	switch {
	case !ok:
		c.Reply.Error(errInteger)
		return nil
	case n < 0 && old < math.MinInt64-n, n > 0 && old > math.MaxInt64-n:
		c.Reply.Error(errOverflow)
		return nil
	}
	var digits [20]byte
	tx.Put(c.Args[1], kv.Value{Data: strconv.AppendInt(digits[:0], old+n, 10), ExpireAt: v.ExpireAt})
	c.Reply.Int(old + n)
	return nil
}

func incrbyfloat(c *Call, tx kv.Tx) error {
	v, found, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	old, ok := new(big.Float).SetPrec(longDoubleBits), true
	if found {
		old, ok = parseFloat(v.Data)
	}
	n, okArg := parseFloat(c.Args[2])
	switch {
	case !ok || !okArg:
		c.Reply.Error(errFloat)
		return nil
	case old.IsInf() || n.IsInf():
		c.Reply.Error(errInfinity)
		return nil
	}
	sum := new(big.Float).SetPrec(longDoubleBits).Add(old, n)
	if sum.MantExp(nil) > longDoubleMaxExp {
		c.Reply.Error(errInfinity)
		return nil
	}
	data := []byte(formatFloat(sum))
	tx.Put(c.Args[1], kv.Value{Data: data, ExpireAt: v.ExpireAt})
	c.Reply.Bulk(data)
	return nil
}
