// SPDX-License-Identifier: GPL-2.0-or-later
/* The order of the candidates and the guesses about slab objects, on a machine made of tables. */
#include <errno.h>
#include <unistd.h>

#include "names_test.h"
#include "names/code_locks.h"
#include "names/lock_names.h"
#include "names/lock_types.h"
#include "names/symbols.h"

#define TEXT   0xffffffff81000000ull
#define DATA   0xffffffff82000000ull
#define SLAB   0xffff888000100000ull
#define PERCPU 0xffff888100000000ull

static const char functions[] = "ffffffff81000000 T _text\n"
				"ffffffff81000100 T _raw_spin_lock\n"
				"ffffffff81000200 T vfs_write\n"
				"ffffffff81000300 T object_work\n"
				"ffffffff81000400 T futex_wake\n"
				"ffffffff81000500 T release_task\n"
				"ffffffff81000600 T __do_sys_setpgid\n"
				"ffffffff81000640 T rtnl_lock\n"
				"ffffffff81000660 T rtnl_trylock\n"
				"ffffffff81000680 T d_move\n"
				"ffffffff810006a0 T d_exchange\n"
				"ffffffff810006d0 T exp_funnel_lock\n"
				"ffffffff810006e0 T __do_semtimedop\n"
				"ffffffff81000700 T _etext\n"
				"ffffffff83000000 B __init_begin\n";

/* The resolver of this test: one slab of 32 KiB. */
static struct slab_cache slab;

void resolver_open(struct resolver *resolver, struct lockline_bpf *bpf)
{
}

void resolver_close(struct resolver *resolver)
{
}

/* From rtnl_lock() on.  The last two functions share two addresses, so that neither names a lock. */
static const __u8 code[0x100] = {
	[0x00] = 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0xc7, 0xc7, 0x80, 0x00, 0x00, 0x82, 0xe9, /* mov DATA + 0x80, rdi; jmp */
	[0x20] = 0x48, 0x8d, 0x3d, 0x19, 0xfa, 0xff, 0x00, 0xe9,                         /* lea DATA + 0x80, rdi; jmp */
	[0x30] = 0x48, 0xc7, 0xc7, 0x00, 0x02, 0x00, 0x81,                               /* mov TEXT + 0x200, rdi */
	[0x40] = 0x48, 0xc7, 0xc7, 0xc0, 0x00, 0x00, 0x82,                               /* mov DATA + 0xc0, rdi */
	[0x50] = 0x48, 0xc7, 0xc7, 0x00, 0x01, 0x00, 0x82,                               /* mov DATA + 0x100, rdi */
	[0x60] = 0x48, 0xc7, 0xc7, 0xc0, 0x00, 0x00, 0x82, 0x48, 0xc7, 0xc7, 0x00, 0x01, 0x00, 0x82,
};

/* Words of other memory; what lies between those of one read is 0. */
static struct {
	__u64 address, value;
} words[64];
static int word_count;
static __u64 own_task;

static void put_word(__u64 address, __u64 value)
{
	expect(word_count < 64);
	words[word_count].address = address;
	words[word_count++].value = value;
}

static int read_words(__u64 address, __u8 *out, size_t size)
{
	bool found = false;

	memset(out, 0, size);
	for (int i = 0; i < word_count; i++) {
		if (words[i].address < address || words[i].address + sizeof(__u64) > address + size)
			continue;
		memcpy(out + (words[i].address - address), &words[i].value, sizeof(__u64));
		found = true;
	}
	return found ? 0 : -EFAULT;
}

int resolver_task(const struct resolver *resolver, __u64 *out)
{
	*out = own_task;
	return own_task ? 0 : -ENOENT;
}

int resolver_read(const struct resolver *resolver, __u64 address, void *out, size_t size)
{
	if (word_count)
		return read_words(address, out, size);
	if (address < TEXT + 0x640 || address + size > TEXT + 0x640 + sizeof(code))
		return -EFAULT;
	memcpy(out, code + (address - TEXT - 0x640), size);
	return 0;
}

int resolver_rq(const struct resolver *resolver, unsigned int cpu, __u64 *out)
{
	return -ENOENT;
}

int resolver_slab(const struct resolver *resolver, __u64 address, struct slab_cache *out)
{
	if (!slab.cache || address - SLAB >= 32768)
		return -ENOENT;
	*out = slab;
	return 0;
}

static struct slab_cache cache(const char *name, __u32 size)
{
	struct slab_cache made = {.cache = 1, .size = size, .object_size = size, .references = 1};

	snprintf(made.name, sizeof(made.name), "%s", name);
	return made;
}

static struct lock_names *machine_of(const char *text)
{
	struct lock_names *names = calloc(1, sizeof(*names));
	char path[] = "/tmp/names_test.XXXXXX";
	struct symbols *symbols;
	struct types *types;
	int fd = mkstemp(path);

	expect(names);
	expect(fd >= 0);
	expect_number(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	expect_number(symbols_open_file(&symbols, path), 0);
	unlink(path);
	names->symbols = symbols;
	expect_number(types_open_btf(&types, make_types()), 0);
	names->types = types;
	names->percpu = (struct percpu){.cpus = 4, .size = 4096, .bases = calloc(4, sizeof(__u64))};
	for (int i = 0; i < 4; i++)
		names->percpu.bases[i] = PERCPU + i * 65536ull;
	/* A CPU that was never there. */
	names->percpu.bases[2] = 0;
	names->page_size = 4096;
	names->image = TEXT;
	names->image_end = 0xffffffff84000000;
	slab = (struct slab_cache){};
	return names;
}

static struct lock_names *machine(void)
{
	return machine_of(functions);
}

static void close_machine(struct lock_names *names)
{
	struct types *types = (struct types *)names->types;
	struct symbols *symbols = (struct symbols *)names->symbols;

	lock_names_close(names);
	types_close(types);
	symbols_close(symbols);
}

static void expect_name(struct lock_names *names, struct lock_hint hint, const char *wanted, const char *instance,
			enum name_source source)
{
	struct lock_name name;

	lock_names_resolve(names, &hint, &name);
	expect_text(name.name, wanted);
	expect_text(name.instance, instance);
	expect_text(name_source_names[name.source], name_source_names[source]);
}

/* A lock that was waited for in _raw_spin_lock, called by site. */
static void expect_called(struct lock_names *names, __u64 address, enum lock_kind kind, __u64 site, const char *wanted,
			  const char *instance, enum name_source source)
{
	__u64 frames[] = {TEXT + 0x110, site + 0x10};

	expect_name(names, (struct lock_hint){.address = address, .kind = kind, .frames = frames, .frame_count = 2},
		    wanted, instance, source);
}

static void per_cpu_variables(void)
{
	struct lock_names *names = machine();
	struct lock_hint hint = {.address = PERCPU + 3 * 65536 + 1024, .kind = KIND_SPINLOCK};

	expect_name(names, hint, "runqueues.__lock", "CPU 3", NAME_PERCPU);
	hint.address -= 65536;
	expect_name(names, hint, "?", "", NAME_UNKNOWN);
	/* No variable there, nor a symbol. */
	hint.address = PERCPU + 2048;
	expect_name(names, hint, "?", "", NAME_UNKNOWN);
	close_machine(names);
}

static void objects_of_the_waiter(void)
{
	struct lock_names *names = machine();
	struct lock_hint hint = {.kind = KIND_MUTEX, .owner = OWNER_MM, .owner_offset = 8, .owner_id = getpid()};
	char pid[32];

	snprintf(pid, sizeof(pid), "pid %d", getpid());
	expect_name(names, hint, "mm_struct.mmap_lock", pid, NAME_OWNER);
	hint.kind = KIND_SPINLOCK;
	hint.owner_offset = 16;
	expect_name(names, hint, "mm_struct.mmap_lock.wait_lock", pid, NAME_OWNER);
	hint.owner_offset = 17;
	expect_name(names, hint, "mm_struct+0x11", pid, NAME_OWNER);
	hint.owner = OWNER_TASK;
	hint.owner_id = 812;
	expect_name(names, hint, "task_struct+0x11", "tid 812", NAME_OWNER);
	close_machine(names);
}

static void slab_objects_by_the_cache_name(void)
{
	struct lock_names *names = machine();

	slab = cache("object_cache", 192);
	expect_called(names, SLAB + 5 * 192 + 4, KIND_SPINLOCK, TEXT + 0x200, "object.lock", "", NAME_SLAB);
	expect_called(names, SLAB + 5 * 192 + 24, KIND_MUTEX, TEXT + 0x200, "object.mutexes", "[1]", NAME_SLAB);
	/* no such lock at the offset */
	expect_called(names, SLAB + 5 * 192 + 8, KIND_SPINLOCK, TEXT + 0x200, "object_cache in vfs_write", "+0x8",
		      NAME_SLAB);
	/* the struct is larger than the object */
	slab.object_size = 60;
	expect_called(names, SLAB + 4, KIND_SPINLOCK, TEXT + 0x200, "object_cache in vfs_write", "+0x4", NAME_SLAB);
	close_machine(names);
}

static void slab_objects_behind_a_red_zone(void)
{
	struct lock_names *names = machine();

	slab = cache("object", 256);
	slab.object_size = 64;
	slab.red_left_pad = 64;
	expect_called(names, SLAB + 3 * 256 + 64 + 4, KIND_SPINLOCK, TEXT + 0x200, "object.lock", "", NAME_SLAB);
	/* in the red zone itself */
	expect_called(names, SLAB + 3 * 256 + 4, KIND_SPINLOCK, TEXT + 0x200, "object in vfs_write", "", NAME_SLAB);
	close_machine(names);
}

static void slabs_smaller_than_usual(void)
{
	struct lock_names *names = machine();

	/* 8192 is no multiple of 192: the third page of a large slab begins at another offset. */
	slab = cache("object_cache", 192);
	slab.order = 3;
	expect_called(names, SLAB + 8192 + 2 * 192 + 8, KIND_MUTEX, TEXT + 0x200, "object.mutexes", "[0]", NAME_SLAB);
	close_machine(names);
}

static void kmalloc_objects_by_a_parameter(void)
{
	struct lock_names *names = machine();

	slab = cache("kmalloc-cg-96", 96);
	expect_called(names, SLAB + 96 + 4, KIND_SPINLOCK, TEXT + 0x300, "object.lock", "", NAME_SLAB);
	expect_called(names, SLAB + 96 + 4, KIND_SPINLOCK, TEXT + 0x200, "kmalloc-cg-96 in vfs_write", "+0x4",
		      NAME_SLAB);
	/* kmalloc would not have taken 192 bytes for 64 */
	slab = cache("kmalloc-192", 192);
	expect_called(names, SLAB + 192 + 4, KIND_SPINLOCK, TEXT + 0x300, "kmalloc-192 in object_work", "+0x4",
		      NAME_SLAB);
	expect_name(names, (struct lock_hint){.address = SLAB + 4, .kind = KIND_SPINLOCK}, "kmalloc-192", "+0x4",
		    NAME_SLAB);
	close_machine(names);
}

static void semaphores_at_the_end_of_their_set(void)
{
	struct lock_names *names = machine();

	slab = cache("kmalloc-cg-512", 512);
	expect_called(names, SLAB + 512 + 256 + 16, KIND_SPINLOCK, TEXT + 0x6e0, "sem.lock", "semaphore 0", NAME_SLAB);
	expect_called(names, SLAB + 512 + 256 + 64 + 16, KIND_RTMUTEX, TEXT + 0x6e0, "sem.lock", "semaphore 1",
		      NAME_SLAB);
	expect_called(names, SLAB + 512 + 256 + 20, KIND_SPINLOCK, TEXT + 0x6e0, "kmalloc-cg-512 in __do_semtimedop",
		      "+0x114", NAME_SLAB);
	expect_called(names, SLAB + 512 + 256 + 16, KIND_SPINLOCK, TEXT + 0x200, "kmalloc-cg-512 in vfs_write",
		      "+0x110", NAME_SLAB);
	close_machine(names);
}

static void merged_caches_are_not_believed(void)
{
	struct lock_names *names = machine();

	slab = cache("object_cache_of_no_machine", 64);
	slab.references = 3;
	expect_called(names, SLAB + 64 + 4, KIND_SPINLOCK, TEXT + 0x200, "slab-64 in vfs_write", "+0x4", NAME_SLAB);
	expect_called(names, SLAB + 64 + 4, KIND_SPINLOCK, TEXT + 0x300, "object.lock", "", NAME_SLAB);
	close_machine(names);
}

/* An object's page, of the slab whose first page is another, and its cache.  name: of 15 bytes at most. */
static __u64 put_object(__u64 memory, __u64 pages, __u64 slab_begin, __u32 size, __u32 number, __u64 cache_address,
			const char *name)
{
	__u64 object = slab_begin + (__u64)number * size, text[2] = {};
	__u64 head = pages + (slab_begin - memory) / 4096 * 64, page = pages + (object - memory) / 4096 * 64;

	strncpy((char *)text, name, sizeof(text) - 1);
	if (page != head)
		put_word(page + 8, head | 1);
	put_word(head, 1u << 9);
	put_word(head + 16, cache_address);
	put_word(cache_address, (__u64)size << 32 | size);
	put_word(cache_address + 8, 3u << 16);
	put_word(cache_address + 16, 1);
	put_word(cache_address + 24, cache_address + 64);
	put_word(cache_address + 64, text[0]);
	put_word(cache_address + 72, text[1]);
	return object;
}

/* The collector's own task and memory lead to the table of pages, whose place no variable tells. */
static struct slab_pages arm64_pages(struct lock_names *names, __u64 memory, __u64 pages, const char *mm_cache)
{
	struct slab_pages found;
	__u64 mm;

	word_count = 0;
	own_task = put_object(memory, pages, memory + 0x4108000, 4672, 3, memory + 0x2000, "task_struct");
	mm = put_object(memory, pages, memory + 0x5210000, 1088, 2, memory + 0x3000, mm_cache);
	put_word(own_task + 8, mm);
	slab_pages_open(&found, &names->resolver, names->symbols, names->types);
	return found;
}

static void table_of_pages_arm64(void)
{
	struct lock_names *names = machine();
	struct slab_cache cache;
	struct slab_pages pages;
	__u64 slab_begin;

	/* Addresses of 48 bits, as of 6.1. */
	pages = arm64_pages(names, 0xffff000000000000, 0xfffffc0000000000, "mm_struct");
	expect(pages.memory == 0xffff000000000000 && pages.memory_end == 0xffff800000000000);
	expect(pages.pages == 0xfffffc0000000000);
	expect_number(slab_pages_find(&pages, &names->resolver, own_task + 64, &cache, &slab_begin), 0);
	expect_text(cache.name, "task_struct");
	expect_number(cache.size, 4672);
	expect(slab_begin == 0xffff000004108000);
	/* Behind the direct map a device's registers may lie. */
	expect_number(slab_pages_find(&pages, &names->resolver, 0xffff800000000000, &cache, &slab_begin), -ENOENT);
	/* Since 6.9; and addresses of 52 bits. */
	pages = arm64_pages(names, 0xffff000000000000, 0xfffffdffc0000000, "mm_struct");
	expect(pages.memory == 0xffff000000000000 && pages.pages == 0xfffffdffc0000000);
	pages = arm64_pages(names, 0xfff0000000000000, 0xffffc1ffc0000000, "mm_struct");
	expect(pages.memory == 0xfff0000000000000 && pages.memory_end == 0xffff800000000000);
	expect(pages.pages == 0xffffc1ffc0000000);
	expect_number(slab_pages_find(&pages, &names->resolver, own_task, &cache, &slab_begin), 0);
	/* What one object alone confirms is not believed; nor a table elsewhere. */
	pages = arm64_pages(names, 0xffff000000000000, 0xfffffc0000000000, "kmalloc-1k");
	expect(!pages.pages);
	pages = arm64_pages(names, 0xffff000000000000, 0xfffffb0000000000, "mm_struct");
	expect(!pages.pages);
	word_count = 0;
	own_task = 0;
	close_machine(names);
}

static void futex_buckets(void)
{
	struct lock_names *names = machine();

	expect_called(names, 0xffffc90000010044, KIND_SPINLOCK, TEXT + 0x400, "futex_hash_bucket.lock", "",
		      NAME_CALL_SITE);
	expect_called(names, 0xffffc90000010044, KIND_RTMUTEX, TEXT + 0x400, "futex_hash_bucket.lock", "",
		      NAME_CALL_SITE);
	expect_called(names, 0xffffc90000010044, KIND_MUTEX, TEXT + 0x400, "futex_wake", "", NAME_CALL_SITE);
	/* no bucket begins four bytes before it */
	expect_called(names, 0xffffc90000010048, KIND_SPINLOCK, TEXT + 0x400, "futex_wake", "", NAME_CALL_SITE);
	expect_called(names, 0xffffc90000010044, KIND_SPINLOCK, TEXT + 0x200, "vfs_write", "", NAME_CALL_SITE);
	close_machine(names);
}

static void call_sites(void)
{
	struct lock_names *names = machine();

	expect_called(names, 0xffffc90000010000, KIND_MUTEX, TEXT + 0x200, "vfs_write", "", NAME_CALL_SITE);
	expect_called(names, DATA + 0x40, KIND_MUTEX, TEXT + 0x500, "release_task", "_text+0x1000040", NAME_CALL_SITE);
	expect_called(names, DATA + 0x40, KIND_RWLOCK_WRITE, TEXT + 0x500, "tasklist_lock", "_text+0x1000040",
		      NAME_CALL_SITE);
	expect_called(names, DATA + 0x40, KIND_RWLOCK_READ, TEXT + 0x600, "tasklist_lock", "_text+0x1000040",
		      NAME_CALL_SITE);
	/* A mutex that one function alone takes; who spins for it waits for the same one. */
	expect_called(names, DATA + 0x90, KIND_MUTEX, TEXT + 0x6d0, "rcu_state.exp_mutex", "_text+0x1000090",
		      NAME_CALL_SITE);
	expect_called(names, DATA + 0x90, KIND_MUTEX_SPIN, TEXT + 0x6d0, "rcu_state.exp_mutex", "_text+0x1000090",
		      NAME_CALL_SITE);
	expect_called(names, DATA + 0x90, KIND_RWSEM_READ, TEXT + 0x6d0, "exp_funnel_lock", "_text+0x1000090",
		      NAME_CALL_SITE);
	/* the same function, but a lock that is no variable of the kernel */
	expect_called(names, 0xffffc90000010000, KIND_RWLOCK_WRITE, TEXT + 0x500, "release_task", "", NAME_CALL_SITE);
	expect_name(names, (struct lock_hint){.address = DATA, .kind = KIND_MUTEX}, "?", "", NAME_UNKNOWN);
	close_machine(names);
}

static void locks_by_code(void)
{
	/* arm64: adrp x0, . + 0x2000; ret; add x0, x0, #0x40; then the same of x1, and a page before the code */
	const __u32 words[] = {0xd0000000, 0xd65f03c0, 0x91010000, 0xd0000001, 0x91010021, 0xf0ffffe0, 0x91020000};
	struct lock_names *names = machine();
	__u64 out[4];

	code_locks_open(&names->code_locks, &names->resolver, names->symbols, TEXT + 0x700, names->image_end);
	expect_called(names, DATA + 0x80, KIND_MUTEX, TEXT + 0x200, "rtnl_mutex", "", NAME_CALL_SITE);
	expect_name(names, (struct lock_hint){.address = DATA + 0x80, .kind = KIND_MUTEX}, "rtnl_mutex", "",
		    NAME_CALL_SITE);
	expect_called(names, DATA + 0x88, KIND_MUTEX, TEXT + 0x200, "vfs_write", "_text+0x1000088", NAME_CALL_SITE);
	/* two functions that share two addresses say nothing */
	expect_called(names, DATA + 0xc0, KIND_MUTEX, TEXT + 0x200, "vfs_write", "_text+0x10000c0", NAME_CALL_SITE);
	close_machine(names);
	expect(code_arguments_arm64((const __u8 *)words, sizeof(words), TEXT + 0x100, 0, ~0ull, out, 4) == 2);
	expect(out[0] == TEXT + 0x2040 && out[1] == TEXT - 0x1000 + 0x80);
	expect(code_arguments_arm64((const __u8 *)words, sizeof(words), TEXT + 0x100, TEXT, ~0ull, out, 4) == 1);
}

static void variables(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	struct lock_names *names;

	fputs("ffffffff81000000 T _text\nffffffff81000100 T _raw_spin_lock\nffffffff81000200 T vfs_write\n", file);
	for (int i = 0; i < 2000; i++)
		fprintf(file, "%llx d variable_%d\n", DATA + i * 64ull, i);
	fprintf(file, "%llx b object\n%llx B _end\n", DATA + 0x100000, DATA + 0x200000);
	fclose(file);
	names = machine_of(text);
	free(text);
	expect_called(names, DATA + 64, KIND_RWSEM_READ, TEXT + 0x200, "variable_1", "", NAME_SYMBOL);
	expect_called(names, DATA + 72, KIND_SPINLOCK, TEXT + 0x200, "variable_1", "+0x8", NAME_SYMBOL);
	/* a variable of the name of its struct */
	expect_called(names, DATA + 0x100000 + 4, KIND_SPINLOCK, TEXT + 0x200, "object.lock", "", NAME_SYMBOL);
	close_machine(names);
}

#define CASE(function)              \
	{                           \
#function, function \
	}

const struct test_case lock_cases[] = {CASE(per_cpu_variables),
				       CASE(objects_of_the_waiter),
				       CASE(locks_by_code),
				       CASE(slab_objects_by_the_cache_name),
				       CASE(slab_objects_behind_a_red_zone),
				       CASE(slabs_smaller_than_usual),
				       CASE(kmalloc_objects_by_a_parameter),
				       CASE(semaphores_at_the_end_of_their_set),
				       CASE(merged_caches_are_not_believed),
				       CASE(table_of_pages_arm64),
				       CASE(futex_buckets),
				       CASE(call_sites),
				       CASE(variables),
				       {}};
