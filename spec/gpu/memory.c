/*
** memory.c -- device memory: where allocations lie, what of them is written.
** Device addresses are reserved in this process without access, so that a host that touches one dies; their bytes lie
** elsewhere. A shadow byte a byte says 0 (nothing lives there), ALLOCATED, or WRITTEN. Between allocations lie guard bands.
** Addresses are handed out ascending and used again only when the region has been gone through: what is freed is poisoned.
** Pinned memory of the host has a region of its own, where device and host addresses are the same.
*/
#include <sys/mman.h>

#include "gpu.h"

enum { GUARD = 512, ALIGN = 256, POISON = 0xdb, FRESH = 0xcb };
#define REGION_BYTES ((uint64_t)1 << 38)
#define SLICE_BYTES (REGION_BYTES / MOST_DEVICES)
#define PINNED_BYTES ((uint64_t)1 << 35)

Region device_region, pinned_region;
uint64_t seen_base, seen_size;

typedef struct Allocation {
  uint64_t offset, size;
} Allocation;

typedef struct Heap { /* allocations by offset, and where the search for room goes on */
  Region *region;
  Allocation *list;
  int n, max;
  uint64_t next, used;
  uint64_t first, end; /* offsets that it gives out */
} Heap;

static Heap device_heaps[MOST_DEVICES], pinned_heap = {.region = &pinned_region};

static void *reserve(uint64_t size, int access) {
  void *p = mmap(NULL, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

bool memory_start(void) {
  if (device_region.size) return true;
  void *addresses = reserve(REGION_BYTES, PROT_NONE);
  uint8_t *bytes = reserve(REGION_BYTES, PROT_READ | PROT_WRITE);
  uint8_t *shadow = reserve(REGION_BYTES, PROT_READ | PROT_WRITE);
  uint64_t *writers = reserve(2 * REGION_BYTES, PROT_READ | PROT_WRITE);
  uint64_t *pinned_writers = reserve(2 * PINNED_BYTES, PROT_READ | PROT_WRITE);
  uint8_t *pinned = reserve(PINNED_BYTES, PROT_READ | PROT_WRITE);
  uint8_t *pinned_shadow = reserve(PINNED_BYTES, PROT_READ | PROT_WRITE);
  if (!writers || !pinned_writers || !addresses || !bytes || !shadow || !pinned || !pinned_shadow)
    return false;
  device_region = (Region){(uintptr_t)addresses, REGION_BYTES, bytes, shadow, writers};
  pinned_region = (Region){(uintptr_t)pinned, PINNED_BYTES, pinned, pinned_shadow, pinned_writers};
  for (uint64_t d = 0; d < MOST_DEVICES; d++)
    device_heaps[d] = (Heap){.region = &device_region,
                             .first = d * SLICE_BYTES + GUARD,
                             .next = d * SLICE_BYTES + GUARD,
                             .end = (d + 1) * SLICE_BYTES};
  pinned_heap.first = pinned_heap.next = GUARD;
  pinned_heap.end = PINNED_BYTES;
  return true;
}

int memory_device(uint64_t address) {
  uint64_t offset = address - device_region.base;
  return offset < device_region.size ? (int)(offset / SLICE_BYTES) : -1;
}

void memory_see(int device, bool peers) {
  seen_base = device_region.base + (peers ? 0 : (uint64_t)device * SLICE_BYTES);
  seen_size = peers ? REGION_BYTES : SLICE_BYTES;
}

static Heap *heap_of(uint64_t address) {
  int device = memory_device(address);
  return device < 0 ? &pinned_heap : device_heaps + device;
}

/* The first allocation that begins above an offset. */
static int heap_above(const Heap *h, uint64_t offset) {
  int low = 0, high = h->n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (h->list[middle].offset > offset) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Room for size bytes and their guard at or above h->next: the place in the list, or -1. */
static int heap_search(Heap *h, uint64_t need) {
  for (int i = heap_above(h, h->next); i <= h->n; i++) {
    if (i > 0) {
      uint64_t end = h->list[i - 1].offset + h->list[i - 1].size + GUARD;
      end = (end + ALIGN - 1) / ALIGN * ALIGN;
      if (h->next < end) h->next = end;
    }
    uint64_t limit = i < h->n ? h->list[i].offset : h->end;
    if (h->next + need <= limit) return i;
  }
  return -1;
}

static uint64_t heap_alloc(Heap *h, uint64_t size, uint8_t state) {
  uint64_t need = (size + GUARD + ALIGN - 1) / ALIGN * ALIGN;
  int at = heap_search(h, need);
  if (at < 0) {
    h->next = h->first;
    at = heap_search(h, need);
  }
  if (at < 0) return 0;
  if (h->n == h->max) {
    h->max = h->max ? 2 * h->max : 64;
    h->list = realloc(h->list, (size_t)h->max * sizeof *h->list);
  }
  memmove(h->list + at + 1, h->list + at, (size_t)(h->n - at) * sizeof *h->list);
  h->list[at] = (Allocation){h->next, size};
  h->n++;
  h->used += size;
  uint64_t offset = h->next;
  h->next += need;
  memset(h->region->shadow + offset, state, size);
  memset(h->region->bytes + offset, FRESH, size < 4096 ? size : 4096);
  return h->region->base + offset;
}

static int heap_at(const Heap *h, uint64_t address) {
  uint64_t offset = address - h->region->base;
  if (offset >= h->region->size) return -1;
  int i = heap_above(h, offset) - 1;
  return i >= 0 && offset - h->list[i].offset < h->list[i].size ? i : -1;
}

/* Pages that lie wholly inside go back to the system, which forgets what was in them. */
static void forget(uint8_t *bytes, uint64_t size) {
  uintptr_t from = ((uintptr_t)bytes + 4095) & ~(uintptr_t)4095,
            to = ((uintptr_t)bytes + size) & ~(uintptr_t)4095;
  if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
}

static uint64_t heap_free(Heap *h, uint64_t address) {
  int i = heap_at(h, address);
  if (i < 0 || h->list[i].offset != address - h->region->base) return 0;
  Allocation a = h->list[i];
  memset(h->region->shadow + a.offset, 0, a.size);
  memset(h->region->bytes + a.offset, POISON, a.size < 65536 ? a.size : 65536);
  if (a.size > 65536) {
    forget(h->region->bytes + a.offset + 65536, a.size - 65536);
    forget(h->region->shadow + a.offset, a.size);
    forget((uint8_t *)(h->region->writers + a.offset / 4), 2 * a.size);
  }
  memmove(h->list + i, h->list + i + 1, (size_t)(h->n - i - 1) * sizeof *h->list);
  h->n--;
  h->used -= a.size;
  return a.size;
}

uint64_t memory_alloc(uint64_t size) {
  Heap *h = device_heaps + device_current();
  if (size > settings.memory || h->used + size > settings.memory) return 0;
  return heap_alloc(h, size, ALLOCATED);
}

uint64_t memory_free(uint64_t address) { return heap_free(heap_of(address), address); }

void *memory_alloc_pinned(size_t size) {
  return (void *)(uintptr_t)heap_alloc(&pinned_heap, size, WRITTEN);
}

bool memory_free_pinned(void *p) { return heap_free(&pinned_heap, (uintptr_t)p) != 0; }

bool memory_is_pinned(const void *p) { return heap_at(&pinned_heap, (uintptr_t)p) >= 0; }

uint64_t memory_used(void) { return device_heaps[device_current()].used; }

bool memory_find(uint64_t address, uint64_t *base, uint64_t *size) {
  Heap *h = heap_of(address);
  int i = heap_at(h, address);
  if (i < 0) return false;
  *base = h->region->base + h->list[i].offset;
  *size = h->list[i].size;
  return true;
}

bool memory_live(uint64_t address, uint64_t size) {
  uint64_t base, whole;
  if (!size) return true;
  return memory_find(address, &base, &whole) && address - base + size <= whole &&
         address - base + size >= size;
}

void memory_reset(int device) {
  Heap *h = device_heaps + device;
  while (h->n) heap_free(h, device_region.base + h->list[0].offset);
}

void memory_describe(uint64_t address, char *text, size_t size) {
  const Heap *h = heap_of(address);
  uint64_t offset = address - h->region->base;
  if (!region_of(address)) {
    snprintf(text, size, "no device memory");
    return;
  }
  if (!region_seen(address)) {
    snprintf(text, size, "memory of device %d, which is no peer", memory_device(address));
    return;
  }
  int i = heap_above(h, offset) - 1;
  const Allocation *a = i >= 0 ? h->list + i : NULL;
  if (a && offset - a->offset < a->size)
    snprintf(text, size, "byte %llu of the %llu at 0x%llx",
             (unsigned long long)(offset - a->offset), (unsigned long long)a->size,
             (unsigned long long)(h->region->base + a->offset));
  else if (a && offset - a->offset - a->size < 2 * GUARD)
    snprintf(text, size, "%llu bytes behind the end of the %llu at 0x%llx",
             (unsigned long long)(offset - a->offset - a->size), (unsigned long long)a->size,
             (unsigned long long)(h->region->base + a->offset));
  else if (i + 1 < h->n && h->list[i + 1].offset - offset <= GUARD)
    snprintf(text, size, "%llu bytes before the %llu at 0x%llx",
             (unsigned long long)(h->list[i + 1].offset - offset),
             (unsigned long long)h->list[i + 1].size,
             (unsigned long long)(h->region->base + h->list[i + 1].offset));
  else snprintf(text, size, "memory that is free%s", offset < h->next ? ", maybe freed" : "");
}
