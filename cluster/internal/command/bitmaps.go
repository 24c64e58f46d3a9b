package command

import (
	"math/bits"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func bitpos(c *Call, r kv.Reader) error {
	bit, err := c.integer(2)
	if err != nil {
		return err
	}
	if bit != 0 && bit != 1 {
		return refusal("ERR The bit argument must be 1 or 0.")
	}
	v, found, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
	if !found { // Redis does not look at the other arguments then: it is an endless row of zeros
		c.Reply.Int(-bit)
		return nil
	}
	first, last, err := c.bitposRange(int64(len(v.Data)))
	if err != nil {
		return err
	}
	at := findBit(v.Data, byte(bit), first, last)
	if at < 0 && bit == 0 && len(c.Args) < 5 && first <= last {
		at = int64(len(v.Data)) * 8 // zeros follow, if no end was given
	}
	c.Reply.Int(at)
	return nil
}

// bitposRange parses the optional start, end and unit of BITPOS, and returns positions of bits.
func (c *Call) bitposRange(length int64) (first, last int64, err error) {
	if len(c.Args) == 3 {
		return 0, length*8 - 1, nil
	}
	if len(c.Args) > 6 {
		return 0, 0, refusal(errSyntax)
	}
	start, err := c.integer(3)
	if err != nil {
		return 0, 0, err
	}
	inBits := len(c.Args) == 6 && c.is(5, "bit")
	if len(c.Args) == 6 && !inBits && !c.is(5, "byte") {
		return 0, 0, refusal(errSyntax)
	}
	end := length - 1
	if len(c.Args) > 4 {
		if end, err = c.integer(4); err != nil {
			return 0, 0, err
		}
	}
	if inBits {
		length *= 8
	}
	if start < 0 {
		start = max(0, start+length)
	}
	if end < 0 {
		end = max(0, end+length)
	}
	first, last = start, min(end, length-1)
	if inBits || first > last {
		return first, last, nil
	}
	return first * 8, last*8 + 7, nil
}

// findBit returns the position of the first bit in [first, last] that is bit, or -1.
func findBit(data []byte, bit byte, first, last int64) int64 {
	flip := byte(0xff) * (1 - bit) // then the first one is looked for
	for i := first >> 3; first <= last && i <= last>>3; i++ {
		b := data[i] ^ flip
		if i == first>>3 {
			b &= 0xff >> (first & 7)
		}
		if b == 0 {
			continue
		}
		if at := i*8 + int64(bits.LeadingZeros8(b)); at <= last {
			return at
		}
		return -1
	}
	return -1
}

// bitOperation is one of BITOP.
type bitOperation byte

const (
	bitAnd bitOperation = iota + 1
	bitOr
	bitXor
	bitNot
)

var bitOperations = map[string]bitOperation{"and": bitAnd, "or": bitOr, "xor": bitXor, "not": bitNot}

// The bounds of what BITOP reads, for other commands wait for it: of all values together, as a multiple of the longest
// value, where a key counts as bitopKey bytes besides.
const (
	bitopValues = 4
	bitopKey    = 4 << 10
)

func bitop(c *Call, tx kv.Tx) error {
	op := bitOperations[string(lowerASCII(c.Args[1]))]
	switch {
	case op == 0:
		return refusal(errSyntax)
	case op == bitNot && len(c.Args) != 4:
		return refusal("ERR BITOP NOT must be called with a single source key.")
	}
	var result []byte
	left := bitopValues * c.Limits.MaxValue
	for i, key := range c.Args[3:] {
		v, _, err := tx.Get(key)
		if err != nil {
			return err
		}
		if left -= len(v.Data) + bitopKey; left < 0 {
			return refuse("ERR BITOP reads at most %d bytes, where each key counts as %d more",
				bitopValues*c.Limits.MaxValue, bitopKey)
		}
		if i == 0 {
			result = append(result, v.Data...)
		} else {
			result = op.combine(result, v.Data)
		}
	}
	for i := 0; op == bitNot && i < len(result); i++ {
		result[i] = ^result[i]
	}
	if len(result) > 0 {
		tx.Put(c.Args[2], kv.Value{Data: result})
	} else if _, found, err := tx.Get(c.Args[2]); err != nil {
		return err
	} else if found {
		tx.Delete(c.Args[2])
	}
	c.Reply.Int(int64(len(result)))
	return nil
}

// combine returns a, combined with b. The shorter one continues with zeros. It may change a.
func (op bitOperation) combine(a, b []byte) []byte {
	if more := len(b) - len(a); more > 0 {
		a = append(a, make([]byte, more)...)
	}
	both := a[:len(b)]
	switch op {
	case bitAnd:
		for i, x := range b {
			both[i] &= x
		}
		clear(a[len(b):])
	case bitOr:
		for i, x := range b {
			both[i] |= x
		}
	case bitXor:
		for i, x := range b {
			both[i] ^= x
		}
	}
	return a
}

// lowerASCII returns a short word in lower case.
func lowerASCII(word []byte) []byte {
	lower := make([]byte, min(len(word), maxName))
	for i := range lower {
		lower[i] = word[i]
		if 'A' <= word[i] && word[i] <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	return lower
}
