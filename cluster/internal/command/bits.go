package command

import (
	"math/bits"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// bitOffset parses the argument 2, a position in bits.
func (c *Call) bitOffset() (offset int64, err error) {
	offset, ok := ParseInt(c.Args[2])
	if !ok || offset < 0 || offset>>3 >= 512<<20 { // the limit of Redis, whatever ours is
		return 0, refusal(errBitOffset)
	}
	return offset, nil
}

func setbit(c *Call, tx kv.Tx) error {
	offset, err := c.bitOffset()
	if err != nil {
		return err
	}
	bit, ok := ParseInt(c.Args[3])
	if !ok || bit&^1 != 0 {
		return refusal("ERR bit is not an integer or out of range")
	}
	if offset>>3 >= int64(c.Limits.MaxValue) {
		return refusal(errTooLong)
	}
	v, _, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	data := make([]byte, max(len(v.Data), int(offset>>3)+1))
	copy(data, v.Data)
	shift := 7 - uint(offset&7)
	old := data[offset>>3] >> shift & 1
	if old != byte(bit) || len(data) > len(v.Data) { // WATCH does not notice what changes nothing
		data[offset>>3] ^= (old ^ byte(bit)) << shift
		tx.Put(c.Args[1], kv.Value{Data: data, ExpireAt: v.ExpireAt})
	}
	c.Reply.Int(int64(old))
	return nil
}

func getbit(c *Call, r kv.Reader) error {
	offset, err := c.bitOffset()
	if err != nil {
		return err
	}
	v, _, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
	bit := byte(0)
	if offset>>3 < int64(len(v.Data)) {
		bit = v.Data[offset>>3] >> (7 - uint(offset&7)) & 1
	}
	c.Reply.Int(int64(bit))
	return nil
}

func bitcount(c *Call, _ kv.Reader, v kv.Value, found bool) error {
	if !found { // Redis does not look at the other arguments then
		c.Reply.Int(0)
		return nil
	}
	length := int64(len(v.Data))
	first, last := int64(0), length*8-1
	switch len(c.Args) {
	case 2:
	case 4, 5:
		var err error
		if first, last, err = c.bitRange(length); err != nil {
			return err
		}
	default:
		return refusal(errSyntax)
	}
	c.Reply.Int(countBits(v.Data, first, last))
	return nil
}

// bitRange parses start, end and BYTE or BIT, and returns positions of bits.
func (c *Call) bitRange(length int64) (first, last int64, err error) {
	start, end, err := c.integers(2)
	if err != nil {
		return 0, 0, err
	}
	// Redis finds out about an empty range before it looks at the unit.
	if start < 0 && end < 0 && start > end {
		return 0, -1, nil
	}
	inBits := len(c.Args) == 5 && c.is(4, "bit")
	if len(c.Args) == 5 && !inBits && !c.is(4, "byte") {
		return 0, 0, refusal(errSyntax)
	}
	if inBits {
		first, last = clampRange(start, end, length*8)
		return first, last, nil
	}
	if first, last = clampRange(start, end, length); first > last { // before a product overflows
		return 0, -1, nil
	}
	return first * 8, last*8 + 7, nil
}

// countBits counts the ones in [first, last], where bit 0 is the highest of the first byte.
func countBits(data []byte, first, last int64) (ones int64) {
	if first > last {
		return 0
	}
	from, to := first>>3, last>>3
	for i := from; i <= to; i++ {
		b := data[i]
		if i == from {
			b &= 0xff >> (first & 7)
		}
		if i == to {
			b &= 0xff << (7 - last&7)
		}
		ones += int64(bits.OnesCount8(b))
	}
	return ones
}
