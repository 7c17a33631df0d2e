// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libtwheel for twheel.TwheelTimer, through JNI.
 *
 * The user_data of a timer is the number of its timeout in Timeouts, and not a global reference,
 * because the garbage collector visits all of these at every collection.
 */
#include <jni.h>
#include <errno.h>
#include <libtwheel.h>
#include <stdio.h>
#include <string.h>

#define BATCH	64

/* Maximum number of timers in a wheel, beside the one that twheel_wake() needs. */
#define MAX_TIMERS	((1U << 24) - 1)

static jfieldID id_field;

static struct twheel *to_wheel(jlong wheel)
{
	return (struct twheel *)(intptr_t)wheel;
}

static void throw(JNIEnv *env, const char *name, const char *message)
{
	jclass exception = (*env)->FindClass(env, name);

	if (exception)
		(*env)->ThrowNew(env, exception, message);
}

static void reject(JNIEnv *env, struct twheel *w, int err)
{
	struct twheel_info info;
	char message[160];

	/* If the module has chosen max_timers, this includes the timer of twheel_wake(). */
	if (err == -ENOSPC && !twheel_info(w, &info))
		snprintf(message, sizeof(message),
			 "No space in the wheel: it holds at most %u timeouts, and fewer if the "
			 "wheels of its user reach max_bytes_per_user",
			 info.max_timers - (info.max_timers != MAX_TIMERS));
	else
		snprintf(message, sizeof(message), "%s", strerror(-err));
	throw(env, "java/util/concurrent/RejectedExecutionException", message);
}

JNIEXPORT void JNICALL Java_twheel_Wheel_init(JNIEnv *env, jclass class, jclass timeout)
{
	(void)class;
	id_field = (*env)->GetFieldID(env, timeout, "id", "J");
}

JNIEXPORT jlong JNICALL Java_twheel_Wheel_open(JNIEnv *env, jclass class, jlong tick_ns)
{
	struct twheel_options options = {
		.size = sizeof(options),
		.tick_ns = tick_ns,
		.max_timers = MAX_TIMERS,
	};
	struct twheel *w;
	int err = twheel_open(&w, &options);

	(void)class;
	/* The module's max_timers_limit may be lower. The default is never above it. */
	if (err == -EINVAL) {
		options.max_timers = 0;
		err = twheel_open(&w, &options);
	}
	if (!err)
		return (intptr_t)w;
	throw(env, err == -EINVAL ? "java/lang/IllegalArgumentException" :
	      "java/lang/IllegalStateException", strerror(-err));
	return 0;
}

JNIEXPORT void JNICALL Java_twheel_Wheel_close(JNIEnv *env, jclass class, jlong wheel)
{
	(void)env;
	(void)class;
	twheel_close(to_wheel(wheel));
}

JNIEXPORT void JNICALL Java_twheel_Wheel_add(JNIEnv *env, jclass class, jlong wheel,
					     jlong delay_ns, jint number, jobject timeout)
{
	struct twheel *w = to_wheel(wheel);
	uint64_t id;
	int err = twheel_add(w, ~0ULL, number, &id);

	(void)class;
	if (err) {
		reject(env, w, err);
		return;
	}
	/* Set the field first, because the event may come at once and the worker needs it. */
	(*env)->SetLongField(env, timeout, id_field, id);
	twheel_set(w, id, twheel_after(w, delay_ns));
}

JNIEXPORT jboolean JNICALL Java_twheel_Wheel_delete(JNIEnv *env, jclass class, jlong wheel,
						    jlong id)
{
	(void)env;
	(void)class;
	return twheel_del(to_wheel(wheel), id) == 1;
}

JNIEXPORT void JNICALL Java_twheel_Wheel_await(JNIEnv *env, jclass class, jlong wheel)
{
	(void)env;
	(void)class;
	twheel_wait(to_wheel(wheel), -1);
}

JNIEXPORT void JNICALL Java_twheel_Wheel_wake(JNIEnv *env, jclass class, jlong wheel)
{
	(void)env;
	(void)class;
	twheel_wake(to_wheel(wheel));
}

JNIEXPORT jint JNICALL Java_twheel_Wheel_read(JNIEnv *env, jclass class, jlong wheel,
					      jintArray numbers)
{
	struct twheel_event events[BATCH];
	jsize room = (*env)->GetArrayLength(env, numbers);
	int n = twheel_read(to_wheel(wheel), events, room < BATCH ? room : BATCH);
	jint read[BATCH];
	int i;

	(void)class;
	for (i = 0; i < n; i++)
		read[i] = events[i].user_data;
	if (n > 0)
		(*env)->SetIntArrayRegion(env, numbers, 0, n, read);
	return n;
}

JNIEXPORT void JNICALL Java_twheel_Wheel_drain(JNIEnv *env, jclass class, jlong wheel)
{
	(void)env;
	(void)class;
	twheel_drain(to_wheel(wheel), TWHEEL_DRAIN_EXPIRE);
}
