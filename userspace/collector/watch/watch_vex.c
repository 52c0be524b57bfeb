// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "watch/watch_vex.h"

/* Opcode maps. */
#define MAP_0F   1
#define MAP_0F38 2
#define MAP_0F3A 3
#define MAP_5    5 /* of half precision, like MAP_0F */
#define MAP_6    6

/* Prefixes that the field pp stands for. */
#define PP_66 1
#define PP_F3 2

struct vex {
	bool evex;
	__u8 map;
	__u8 pp;
	__u8 opcode;
	__u8 modrm;
	__u8 base;   /* the fourth bit of its number */
	__u8 index;  /* likewise */
	__u8 vector; /* bytes */
};

static bool is_one_of(__u8 opcode, const char *opcodes, size_t count)
{
	return memchr(opcodes, opcode, count);
}

#define IS_ONE_OF(opcode, opcodes) is_one_of(opcode, opcodes, sizeof(opcodes) - 1)

static bool stores_0f(const struct vex *vex)
{
	switch (vex->opcode) {
	case 0x7e: /* vmovd, vmovq; with F3 it loads */
		return vex->pp == PP_66;
	case 0x91: /* kmov */
		return !vex->evex;
	case 0xae: /* vldmxcsr, vstmxcsr */
		return (vex->modrm >> 3 & 7) == 3;
	}
	return IS_ONE_OF(vex->opcode, "\x11\x13\x17\x29\x2b\x7f\xd6\xe7");
}

static bool stores_0f38(const struct vex *vex)
{
	if (!vex->evex)
		return IS_ONE_OF(vex->opcode, "\x2e\x2f\x8e") || (vex->opcode == 0x4b && vex->pp == PP_F3) ||
		       (vex->opcode == 0x49 && vex->pp == PP_66); /* sttilecfg */
	/* vpmovqb and the like, of a vector's elements their lower parts. */
	if (vex->pp == PP_F3 && vex->opcode >= 0x10 && vex->opcode <= 0x35 && (vex->opcode & 0xf) <= 5)
		return true;
	return IS_ONE_OF(vex->opcode, "\x63\x8a\x8b\xa0\xa1\xa2\xa3");
}

static __u8 access_of(const struct vex *vex)
{
	bool store = false;

	switch (vex->map) {
	case MAP_0F:
	case MAP_5:
		store = stores_0f(vex);
		break;
	case MAP_0F38:
		/* cmpccxadd */
		if (!vex->evex && vex->opcode >> 4 == 0xe)
			return ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED;
		store = stores_0f38(vex);
		break;
	case MAP_0F3A:
		store = IS_ONE_OF(vex->opcode, "\x14\x15\x16\x17\x19\x1b\x1d\x39\x3b");
		break;
	}
	return store ? ACCESS_WRITE : ACCESS_READ;
}

/* Gathers and scatters have a vector of indices, tiles a stride. */
static bool has_many_places(const struct vex *vex)
{
	return vex->map == MAP_0F38 && (vex->opcode == 0x4b || (vex->opcode >= 0x90 && vex->opcode <= 0x93) ||
					(vex->evex && IS_ONE_OF(vex->opcode, "\xa0\xa1\xa2\xa3\xc6\xc7")));
}

static bool has_constant(const struct vex *vex)
{
	return vex->map == MAP_0F3A ||
	       (vex->map == MAP_0F && IS_ONE_OF(vex->opcode, "\x70\x71\x72\x73\xc2\xc4\xc5\xc6"));
}

/* Bytes of the prefix and the opcode; 0: there is none. */
static size_t read_prefix(const __u8 *text, size_t size, struct vex *vex)
{
	if (size >= 3 && text[0] == 0xc5) {
		*vex = (struct vex){.map = MAP_0F, .pp = text[1] & 3, .vector = text[1] & 4 ? 32 : 16};
		vex->opcode = text[2];
		return 3;
	}
	if (size >= 4 && text[0] == 0xc4) {
		*vex = (struct vex){.map = text[1] & 0x1f, .pp = text[2] & 3, .vector = text[2] & 4 ? 32 : 16};
		vex->index = text[1] & 0x40 ? 0 : 8;
		vex->base = text[1] & 0x20 ? 0 : 8;
		vex->opcode = text[3];
		return vex->map >= MAP_0F && vex->map <= MAP_0F3A ? 4 : 0;
	}
	if (size >= 5 && text[0] == 0x62) {
		*vex = (struct vex){.evex = true, .map = text[1] & 7, .pp = text[2] & 3};
		vex->index = text[1] & 0x40 ? 0 : 8;
		vex->base = text[1] & 0x20 ? 0 : 8;
		vex->vector = 16 << (text[3] >> 5 & 3);
		vex->opcode = text[4];
		/* Bits that are fixed. */
		if (text[1] & 8 || !(text[2] & 4) || (text[3] & 0x60) == 0x60)
			return 0;
		return vex->map && vex->map != 4 && vex->map <= MAP_6 ? 5 : 0;
	}
	return 0;
}

/* The operand behind the ModRM byte; what a segment begins at is not known.  Its bytes, 0: cut off. */
static size_t read_operand(const struct vex *vex, const __u8 *text, size_t size, bool segment,
			   struct watch_operand *operand)
{
	__u8 mod = vex->modrm >> 6, rm = vex->modrm & 7, sib;
	size_t used = 1, displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;

	*operand = (struct watch_operand){
		.access = access_of(vex), .size = vex->vector, .base = rm + vex->base, .index = -1, .lost = segment};
	if (rm == 4) {
		if (size < 2)
			return 0;
		sib = text[1];
		used++;
		operand->base = (sib & 7) + vex->base;
		operand->index = (sib >> 3 & 7) + vex->index;
		operand->scale = 1 << (sib >> 6);
		operand->index = operand->index == 4 ? -1 : operand->index;
		rm = sib & 7;
		if (!mod && rm == 5) {
			operand->base = -1;
			displacement = 4;
		}
	} else if (!mod && rm == 5) {
		/* Relative to the instruction: its end is added by who knows it. */
		operand->base = -1;
		displacement = 4;
	}
	if (size < used + displacement)
		return 0;
	if (displacement == 1) {
		operand->offset = (__s64)(__s8)text[used];
		/* In units of the operand's size, which is not worked out here. */
		operand->lost |= vex->evex && operand->offset;
	} else if (displacement) {
		__s32 value;

		memcpy(&value, text + used, sizeof(value));
		operand->offset = (__s64)value;
	}
	operand->lost |= has_many_places(vex);
	if (operand->lost)
		operand->offset = 0;
	return used + displacement;
}

bool watch_vex_decode(const __u8 *text, size_t size, __u64 address, struct watch_instruction *out)
{
	struct watch_operand *operand = &out->operands[0];
	size_t used = 0, prefix, bytes;
	bool segment = false;
	struct vex vex;

	*out = (struct watch_instruction){.address = address};
	while (used < size && IS_ONE_OF(text[used], "\x26\x2e\x36\x3e\x64\x65\x67") && used < 4)
		segment |= (text[used++] & 0xfe) == 0x64;
	prefix = read_prefix(text + used, size - used, &vex);
	if (!prefix)
		return false;
	used += prefix;
	/* vzeroupper, vzeroall: nothing follows. */
	if (vex.map == MAP_0F && vex.opcode == 0x77 && !vex.evex) {
		out->length = used;
		return true;
	}
	if (used >= size)
		return false;
	vex.modrm = text[used];
	bytes = vex.modrm >> 6 == 3 ? 1 : read_operand(&vex, text + used, size - used, segment, operand);
	used += bytes + has_constant(&vex);
	if (!bytes || used > size)
		return false;
	out->length = used;
	out->operand_count = vex.modrm >> 6 != 3;
	/* As with modrm 00 .. 101. */
	if ((vex.modrm & 0xc7) == 5 && !operand->lost)
		operand->offset += address + used;
	return true;
}
