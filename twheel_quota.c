// SPDX-License-Identifier: GPL-2.0
/*
 * Per-user limits on wheels, and on the bytes of kernel memory that they take.
 *
 * The user who pays for a wheel is the effective uid of the process that opened it. Within a
 * user namespace, any process can become any uid that is mapped there, and users with
 * subordinate ids can make as many namespaces as they like, each with another id as its
 * root. Therefore the user of such a wheel is the owner of the outermost namespace below
 * the initial one. If that owner is global root, the namespace is a container of the
 * administrator, and the user is the container's own root, so that containers do not
 * share their limits.
 *
 * Memory is charged here before a wheel allocates it, and stays charged until the wheel ends, with
 * the exception of buckets that SETUP replaces. As with disk quotas, privileged callers may exceed
 * the limits, but their use is counted.
 *
 * quota_open() is called with the mutex of the misc devices held, so it waits for no memory.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "twheel_pages.h"
#include "twheel_quota.h"

static unsigned int max_wheels_per_user = 1024;
module_param(max_wheels_per_user, uint, 0644);
MODULE_PARM_DESC(max_wheels_per_user, "Maximum number of wheels that a user may have open (default 1024; 0: no limit)");

static unsigned long max_bytes_per_user = ULONG_MAX;
module_param(max_bytes_per_user, ulong, 0644);
MODULE_PARM_DESC(max_bytes_per_user, "Maximum memory in bytes of the wheels of a user (default: 4 % of low memory; 0: no limit)");

static DEFINE_HASHTABLE(users, 6);
/* Protects the table, the counts of its users, and the bytes of each bill. */
static DEFINE_SPINLOCK(users_lock);

static struct quota *find_quota(kuid_t uid)
{
	struct quota *q;

	lockdep_assert_held(&users_lock);
	hash_for_each_possible(users, q, node, __kuid_val(uid))
		if (uid_eq(q->uid, uid))
			return q;
	return NULL;
}

static kuid_t payer(const struct cred *cred)
{
	struct user_namespace *ns = cred->user_ns;
	kuid_t root;

	if (ns == &init_user_ns)
		return cred->euid;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return ns->owner;
	root = make_kuid(ns, 0);
	return uid_valid(root) ? root : cred->euid;
}

/* Called only at a limit, because the kernel records that a process has used a capability. */
static bool may_exceed(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
}

/**
 * quota_open() - count a wheel
 * @bill: out: for quota_charge() and quota_close()
 * @opener: who opens it
 * @bytes: memory that the wheel takes when it is opened
 *
 * Return: 0, -ENOSPC or -ENOMEM.
 */
int quota_open(struct bill *bill, const struct cred *opener, size_t bytes)
{
	unsigned int most = READ_ONCE(max_wheels_per_user) ?: UINT_MAX;
	struct quota *fresh = kzalloc(sizeof(*fresh), NOWAIT_GFP), *q;
	int err;

	if (!fresh)
		return -ENOMEM;
	fresh->uid = payer(opener);
	spin_lock_init(&fresh->lock);
	fresh->due_end = &fresh->due.first;
	INIT_WORK(&fresh->work, quota_turn);
	spin_lock(&users_lock);
	q = find_quota(fresh->uid);
	if (!q) {
		q = fresh;
		hash_add(users, &q->node, __kuid_val(q->uid));
		fresh = NULL;
	}
	err = q->wheels < most || may_exceed() ? 0 : -ENOSPC;
	if (!err)
		q->wheels++;
	spin_unlock(&users_lock);
	kfree(fresh);
	if (err)
		return err;

	*bill = (struct bill) { .quota = q };
	err = quota_charge(bill, bytes);
	if (err)
		quota_close(bill);
	return err;
}

/**
 * quota_charge() - count memory, or refuse
 * @bill: of the wheel that will take it
 * @bytes: how much
 *
 * Return: 0 or -ENOSPC.
 */
int quota_charge(struct bill *bill, size_t bytes)
{
	u64 most = READ_ONCE(max_bytes_per_user) ?: U64_MAX;
	struct quota *q = bill->quota;
	int err = -ENOSPC;

	spin_lock(&users_lock);
	if (q->bytes + bytes <= most || may_exceed()) {
		q->bytes += bytes;
		bill->bytes += bytes;
		err = 0;
	}
	spin_unlock(&users_lock);
	return err;
}

/**
 * quota_uncharge() - stop counting memory
 * @bill: of the wheel that has freed the memory, or could not allocate it
 * @bytes: how much
 */
void quota_uncharge(struct bill *bill, size_t bytes)
{
	spin_lock(&users_lock);
	bill->quota->bytes -= bytes;
	bill->bytes -= bytes;
	spin_unlock(&users_lock);
}

/**
 * quota_close() - stop counting a wheel and its memory
 * @bill: from quota_open()
 *
 * Context: may sleep.
 */
void quota_close(struct bill *bill)
{
	struct quota *q = bill->quota;
	bool last;

	spin_lock(&users_lock);
	q->bytes -= bill->bytes;
	last = !--q->wheels;
	if (last)
		hash_del(&q->node);
	spin_unlock(&users_lock);
	if (!last)
		return;
	/* The worker has turned the user's last wheel, but may not have returned yet. */
	cancel_work_sync(&q->work);
	kfree(q);
}

/**
 * quota_init() - choose the default of max_bytes_per_user, unless it was set
 */
void quota_init(void)
{
	struct sysinfo si;

	si_meminfo(&si);
	/* The same share of low memory as epoll uses for max_user_watches. */
	if (max_bytes_per_user == ULONG_MAX)
		max_bytes_per_user = (si.totalram - si.totalhigh) / 25 << PAGE_SHIFT;
}
