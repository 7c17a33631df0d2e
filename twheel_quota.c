// SPDX-License-Identifier: GPL-2.0
/*
 * How many wheels and timers a user may have, whoever uses them: who opened a wheel counts.
 *
 * A container has one quota: that of the root of its user namespace, as the initial
 * namespace sees him. Containers whose roots differ share no limit and no count. Timers
 * count as their memory comes, a page of the store at a time, and until their wheel ends.
 */
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/lockdep.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "twheel_pages.h"
#include "twheel_quota.h"

static unsigned int max_wheels_per_user = 1U << 16;
module_param(max_wheels_per_user, uint, 0644);
MODULE_PARM_DESC(max_wheels_per_user, "Wheels that a user may have open (default 65536; 0: any number)");

static unsigned int max_timers_per_user = 1U << 26;
module_param(max_timers_per_user, uint, 0644);
MODULE_PARM_DESC(max_timers_per_user, "Timers that the wheels of a user may hold (default 67108864; 0: any number)");

/**
 * struct quota - what a user has
 * @node: in users
 * @uid: the user
 * @wheels: how many are open
 * @timers: for how many they have memory
 */
struct quota {
	struct hlist_node node;
	kuid_t uid;
	unsigned int wheels;
	u64 timers;
};

static DEFINE_HASHTABLE(users, 6);
/* Protects the table and what is in it. */
static DEFINE_MUTEX(users_mutex);

static struct quota *get_quota(kuid_t uid)
{
	struct quota *q;

	lockdep_assert_held(&users_mutex);
	hash_for_each_possible(users, q, node, __kuid_val(uid))
		if (uid_eq(q->uid, uid))
			return q;
	q = kzalloc(sizeof(*q), STORE_GFP);
	if (!q)
		return NULL;
	q->uid = uid;
	hash_add(users, &q->node, __kuid_val(uid));
	return q;
}

/* The user who pays. A process may take any id that is mapped in its namespace. */
static kuid_t payer(const struct cred *cred)
{
	kuid_t root = make_kuid(cred->user_ns, 0);

	return cred->user_ns != &init_user_ns && uid_valid(root) ? root : cred->euid;
}

/**
 * quota_open() - count a wheel
 * @opener: who opens it
 *
 * Context: may sleep. Return: the user's quota, for quota_close(); or -ENOSPC or -ENOMEM.
 */
struct quota *quota_open(const struct cred *opener)
{
	unsigned int most = READ_ONCE(max_wheels_per_user);
	struct quota *q;

	mutex_lock(&users_mutex);
	q = get_quota(payer(opener));
	if (!q)
		q = ERR_PTR(-ENOMEM);
	else if (most && q->wheels >= most)
		q = ERR_PTR(-ENOSPC);
	else
		q->wheels++;
	mutex_unlock(&users_mutex);
	return q;
}

/**
 * quota_charge() - count timers, or refuse
 * @q: the quota
 * @timers: how many more
 *
 * Context: may sleep. Return: 0 or -ENOSPC.
 */
int quota_charge(struct quota *q, u32 timers)
{
	u64 most = READ_ONCE(max_timers_per_user);
	int err = 0;

	mutex_lock(&users_mutex);
	if (most && q->timers + timers > most)
		err = -ENOSPC;
	else
		q->timers += timers;
	mutex_unlock(&users_mutex);
	return err;
}

/**
 * quota_uncharge() - count timers no more
 * @q: the quota
 * @timers: how many
 *
 * Context: may sleep.
 */
void quota_uncharge(struct quota *q, u32 timers)
{
	mutex_lock(&users_mutex);
	q->timers -= timers;
	mutex_unlock(&users_mutex);
}

/**
 * quota_close() - count a wheel no more
 * @q: from quota_open()
 *
 * Context: may sleep.
 */
void quota_close(struct quota *q)
{
	mutex_lock(&users_mutex);
	if (!--q->wheels) {
		hash_del(&q->node);
		kfree(q);
	}
	mutex_unlock(&users_mutex);
}
