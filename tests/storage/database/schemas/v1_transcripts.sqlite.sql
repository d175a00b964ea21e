PRAGMA application_id = 1953459053;
BEGIN TRANSACTION;
CREATE TABLE tokenmem_facts (
	name TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "tokenmem_facts" VALUES('schema_version',1);
INSERT INTO "tokenmem_facts" VALUES('shape',60563929538598821);
CREATE TABLE tokenmem_messages (
	session_key TEXT NOT NULL, 
	seq BIGINT NOT NULL, 
	message_key TEXT NOT NULL, 
	was_named INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	checksum TEXT NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (session_key, seq), 
	UNIQUE (session_key, message_key)
);
INSERT INTO "tokenmem_messages" VALUES('=chat',1,'=h1',1,'20df05892e44519837018bd3426be98b','2026-01-31T12:00:00+00:00','1fd8e58ffb08d641b073e21b45d56caf','{"type":"human","data":{"content":"Where is order 4711? Ünïcode \u0000 too.","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":"h1"}}');
INSERT INTO "tokenmem_messages" VALUES('=chat',2,'=a1',1,'3575999a3eddb0219e0ea9966c803df2','2026-01-31T12:00:00+00:00','b1ba7f2163f24bae7e51570303eb1188','{"type":"ai","data":{"content":"","additional_kwargs":{},"response_metadata":{},"type":"ai","name":null,"id":"a1","tool_calls":[{"name":"search","args":{"query":"orders"},"id":"call-1","type":"tool_call"}],"invalid_tool_calls":[],"usage_metadata":null}}');
INSERT INTO "tokenmem_messages" VALUES('=chat',3,'=t1',1,'8244d2e056dba480faf9bee176499ff6','2026-01-31T12:00:00+00:00','a3d1d16832e5e1420300ea0306ee82b4','{"type":"tool","data":{"content":"The order is in Lisbon.","additional_kwargs":{},"response_metadata":{},"type":"tool","name":null,"id":"t1","tool_call_id":"call-1","artifact":null,"status":"success"}}');
INSERT INTO "tokenmem_messages" VALUES('=chat',4,'=a2',1,'1870398ee618eb91f5ae2eddaa6e1838','2026-01-31T12:00:00+00:00','4a7c7a9851f249786552a5c22bbe2ac5','{"type":"ai","data":{"content":[{"type":"text","text":"In Lisbon."}],"additional_kwargs":{},"response_metadata":{},"type":"ai","name":null,"id":"a2","tool_calls":[],"invalid_tool_calls":[],"usage_metadata":null}}');
INSERT INTO "tokenmem_messages" VALUES('=plain',1,'=a6f24965-e1d3-4409-8048-cc284ad04a40',0,'545a12062baddf5315c0171de9cfcbc8','2026-01-31T12:00:00+00:00','af769858ac0846db1d37725a98b2c52f','{"type":"human","data":{"content":"yes","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":"a6f24965-e1d3-4409-8048-cc284ad04a40"}}');
INSERT INTO "tokenmem_messages" VALUES('=plain',2,'=0a264c94-a10b-4fdb-ba01-1366ed18196b',0,'db3272380a23146f54e8cf5db16827ce','2026-01-31T12:00:00+00:00','8df25fd25402b3e354cd208053fa138b','{"type":"ai","data":{"content":"ok","additional_kwargs":{},"response_metadata":{},"type":"ai","name":null,"id":"0a264c94-a10b-4fdb-ba01-1366ed18196b","tool_calls":[],"invalid_tool_calls":[],"usage_metadata":null}}');
INSERT INTO "tokenmem_messages" VALUES('=plain',3,'=d8248b20-8832-4629-aefa-5089c338806e',0,'545a12062baddf5315c0171de9cfcbc8','2026-01-31T12:00:00+00:00','314196059e3d292739abcbb345f67abd','{"type":"human","data":{"content":"yes","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":"d8248b20-8832-4629-aefa-5089c338806e"}}');
INSERT INTO "tokenmem_messages" VALUES('=l\xe4rm\ud83d',1,'=7471881a-0a41-4625-b27a-0944ca687083',0,'4f3d6f90b7efcea4abc7262593b01dfa','2026-01-31T12:00:00+00:00','de2f63c80a5a661792430e00de39f788','{"type":"human","data":{"content":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":"7471881a-0a41-4625-b27a-0944ca687083"}}');
CREATE TABLE tokenmem_sessions (
	session_key TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	user_id TEXT, 
	first_seq BIGINT NOT NULL, 
	last_seq BIGINT NOT NULL, 
	version BIGINT NOT NULL, 
	checksum TEXT NOT NULL, 
	budget TEXT, 
	state TEXT, 
	PRIMARY KEY (session_key), 
	UNIQUE (fingerprint)
);
INSERT INTO "tokenmem_sessions" VALUES('=chat','c54efd770e4dd86d29eb355c8490db5a','chat','ann',1,4,1,'f6c7578bf8e5b6bc8861bccb0389d7ca',NULL,'{"version":1,"summary":null,"cuts":{"t1":{"kind":"tool","tokens":3}},"kept":["h1"],"first":"h1","totals":{}}');
INSERT INTO "tokenmem_sessions" VALUES('=plain','24bf0c55edddc262f81091fcbe695046','plain',NULL,1,3,0,'a3a94bc66df548dfb5f6a41ea734b503',NULL,NULL);
INSERT INTO "tokenmem_sessions" VALUES('=l\xe4rm\ud83d','34091c1eebd56d9a61ae0d11ed1a9de7','l\xe4rm\ud83d',NULL,1,1,0,'1f711d16e0cc1f2954467f9b78d32931',NULL,NULL);
INSERT INTO "tokenmem_sessions" VALUES('=cleared','51eafc4a216b37ea05eed5d98b03f674','cleared',NULL,3,2,1,'826883b6e83eeca98e32ceb994a7f976',NULL,NULL);
COMMIT;
